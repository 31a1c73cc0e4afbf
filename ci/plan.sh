#!/bin/sh
# Plans a pull request with kubectl-gitops, and posts the plan as one comment. action/action.yml runs this file on GitHub;
# ci/templates/plan.yml has a copy of it for GitLab, which `cargo xtask actions template` writes.
#
# usage: plan.sh install | plan | artifact | comment | verdict
#   install  check the sum of the archive of a release, and unpack the program
#   plan     plan the checkout, without the environment of the job: plan.json, plan.md, plan.html and exit-code
#   artifact move the plan to the folder gitops-plan of the checkout
#   comment  render plan.json with the program of `install`, and post it or update its comment; reads nothing else of `plan`
#   verdict  end with the exit code of the plan
#
# Inputs are environment variables, named at the functions. All texts are data: none is evaluated.
set -eu
umask 077

fail() {
  printf 'error: %s\n' "$1" >&2
  [ -z "${2-}" ] || printf 'hint: %s\n' "$2" >&2
  exit 1
}

# A folder of the job, outside the checkout. The plan is in its folder plan, or in GITOPS_PLAN.
work=${GITOPS_DIR:?is the folder for the program and the plan}
out=${GITOPS_PLAN:-$work/plan}

program() {
  case $(uname -s) in
    MINGW* | MSYS* | CYGWIN*) printf 'kubectl-gitops.exe' ;;
    *) printf 'kubectl-gitops' ;;
  esac
}

# Prints the name of the archive for this machine.
archive_name() {
  case $(uname -s) in
    Linux) os=linux ;;
    Darwin) os=darwin ;;
    MINGW* | MSYS* | CYGWIN*) os=windows ;;
    *) fail "no release is for $(uname -s)" ;;
  esac
  case $(uname -m) in
    x86_64 | amd64) arch=amd64 ;;
    aarch64 | arm64) arch=arm64 ;;
    *) fail "no release is for $(uname -m)" ;;
  esac
  printf 'kubectl-gitops-%s-%s-%s.tar.gz' "$1" "$os" "$arch"
}

# Prints the expected sum of a file: the only digest of GITOPS_SHA256, or that of the line with the file's name.
expected_sum() {
  lines=0 single='' named=''
  while read -r digest name; do
    [ -n "$digest" ] || continue
    lines=$((lines + 1))
    if [ -z "$name" ]; then
      single=$digest
    elif [ "${name#\*}" = "$1" ]; then
      named=$digest
    fi
  done << INPUT
${GITOPS_SHA256-}
INPUT
  if [ -z "$named" ] && [ "$lines" -eq 1 ]; then named=$single; fi
  [ -n "$named" ] || fail "sha256 has no sum for $1" "pass the digest of the archive, or the lines of SHA256SUMS"
  case $named in
    *[!0-9a-f]*) fail "sha256 of $1 is no SHA-256 digest" ;;
  esac
  [ "${#named}" -eq 64 ] || fail "sha256 of $1 is no SHA-256 digest"
  printf '%s' "$named"
}

sum_of() {
  if command -v sha256sum > /dev/null; then
    sha256sum < "$1"
  else
    shasum -a 256 < "$1"
  fi | cut -d ' ' -f 1
}

# Gets a file of the release $version: $1 is its name, $2 what its name adds to that of the archive, $3 where it is written.
fetch() {
  if [ -n "${GITOPS_ARCHIVE-}" ]; then
    cp -- "$GITOPS_ARCHIVE$2" "$3" || fail "there is no file $GITOPS_ARCHIVE$2"
    return 0
  fi
  releases=${GITOPS_RELEASES:-https://github.com/kubectl-gitops/kubectl-gitops/releases/download}
  curl --fail --silent --show-error --location --proto '=https,http' --proto-redir '=https,http' --retry 2 \
    --max-time 300 --max-filesize 100000000 --output "$3" -- "$releases/$version/$1$2" ||
    fail "cannot download $releases/$version/$1$2"
}

# Checks the signature of the archive $1 with the name $2: what `cosign sign-blob --key` and `openssl dgst -sign` write.
check_signature() {
  fetch "$2" .sig "$work/signature.txt"
  printf '%s\n' "$GITOPS_PUBLIC_KEY" > "$work/key.pem"
  if ! openssl base64 -d -A -in "$work/signature.txt" -out "$work/signature" 2> /dev/null ||
    ! openssl dgst -sha256 -verify "$work/key.pem" -signature "$work/signature" "$1" > /dev/null 2>&1; then
    rm -f "$1"
    fail "$2 is not signed by this public key; nothing of it was run"
  fi
}

# GITOPS_VERSION, GITOPS_SHA256, and optionally GITOPS_ARCHIVE (a file) or GITOPS_RELEASES (an address), and
# GITOPS_PUBLIC_KEY.
install() {
  version=${GITOPS_VERSION-}
  case $version in
    *[!A-Za-z0-9.+-]*) fail "version has characters that no version has" ;;
    v[0-9]*) ;;
    *) fail "version is not written as v0.1.0" ;;
  esac
  name=$(archive_name "$version")
  expected=$(expected_sum "$name")
  archive=$work/archive.tar.gz
  rm -rf "${work:?}/bin" "$archive"
  mkdir -p "$work/bin"
  fetch "$name" '' "$archive"
  actual=$(sum_of "$archive")
  if [ "$actual" != "$expected" ]; then
    rm -f "$archive"
    fail "$name has the SHA-256 sum $actual, and $expected is expected; nothing of it was run"
  fi
  [ -z "${GITOPS_PUBLIC_KEY-}" ] || check_signature "$archive" "$name"
  tar -xzf "$archive" -C "$work/bin" "$(program)"
  rm -f "$archive"
  file=$work/bin/$(program)
  if [ -L "$file" ] || [ ! -f "$file" ] || [ ! -x "$file" ]; then fail "$name has no program"; fi
}

# Leaves in PATH only the folders outside of $1, in which a pull request can put no program.
restrict_path() {
  outside=$(cd -P -- "$1" 2> /dev/null && pwd -P) || return 0
  [ "$outside" != / ] || return 0
  rest=$PATH: kept=''
  while [ -n "$rest" ]; do
    folder=${rest%%:*} rest=${rest#*:}
    case $folder in
      /*) ;;
      *) continue ;;
    esac
    folder=$(cd -P -- "$folder" 2> /dev/null && pwd -P) || continue
    case $folder/ in
      "$outside"/*) ;;
      *) kept=$kept:$folder ;;
    esac
  done
  PATH=${kept#:}
  [ -n "$PATH" ] || fail "no absolute folder of PATH is outside of the checkout"
}

# git for a checkout that nobody has read: it runs nothing of it, and no folder of it passes for a repository.
git() {
  command git -c safe.bareRepository=explicit -c core.fsmonitor=false -c core.hooksPath=/dev/null "$@"
}

# Refuses a checkout that has credentials: text of the checkout ends up in the plan, and the plan in a comment.
refuse_credentials() {
  common=$(git -C "$1" rev-parse --git-common-dir 2> /dev/null) || fail "$1 is no checkout of git"
  case $common in
    /* | ?:*) ;;
    *) common=$1/$common ;;
  esac
  for config in "$common/config" "$common/config.worktree"; do
    [ -f "$config" ] || continue
    refuse_credentials_in "$config"
  done
}

# Returns 0 if the settings of the file $1, or of one that it includes, match: $2 is for the name, $3 for the value.
has_setting() {
  git config --file "$1" --includes --get-regexp "$2" ${3:+"$3"} > /dev/null
}

# A token can be a header, what a helper prints, or the user or the password in any address, as a name or a value.
refuse_credentials_in() {
  if has_setting "$1" '^http\..*extraheader$' ||
    has_setting "$1" '.' 'https?://[^/[:space:]]*@' ||
    has_setting "$1" '.' '://[^/[:space:]]*:[^/[:space:]]*@' ||
    has_setting "$1" '^[a-z]+\.https?://[^/]*@.*' ||
    has_setting "$1" '^[a-z]+\..*://[^/]*:[^/]*@.*' ||
    has_setting "$1" '^credential\..*helper$' 'password=[^$]' ||
    has_setting "$1" '^includeif\..*path$' 'git-credentials-'; then
    fail "the checkout has credentials in its .git/config" \
      "set persist-credentials: false at actions/checkout, or FF_GIT_URLS_WITHOUT_TOKENS: true on GitLab"
  fi
}

# Prints the absolute path of the folder $2 of the input $1. A link in the checkout could lead it to another one of the machine.
folder() {
  inner=${2#"$PWD"/}
  actual=$(cd -P -- "$inner" 2> /dev/null && pwd -P) || fail "$1 $2 is no folder"
  case $inner in
    /* | ?:*) ;;
    *)
      named=$(cd -P . && cd -- "$inner" && pwd)
      [ "$named" = "$actual" ] || fail "$1 $2 leads through a link, which a pull request can change" "name the folder itself"
      ;;
  esac
  printf '%s' "$actual"
}

# Prints the absolute path of the file $2, which is no file of the repository or of its submodules: a pull request can change
# those.
untracked() {
  [ -f "$2" ] || fail "$1 $2 is no file"
  file=$(absolute "$2")
  # git names no file behind a link.
  file=$(cd -P -- "${file%/*}/" && pwd -P)/${file##*/}
  if [ -n "$(git --literal-pathspecs -C "$path" ls-files --recurse-submodules -- "$file" 2> /dev/null)" ]; then
    fail "$1 $2 is a file of the repository, which a pull request can change" \
      "take it from an artifact or a secret of another job"
  fi
  printf '%s' "$file"
}

# Runs the program with the environment that `plan` prepared, and nothing else.
run() {
  env -i "PATH=$job_path" "HOME=$work/home" "TMPDIR=$work/tmp" "$work/bin/$(program)" "$@"
}

# GITOPS_PATH, and optionally GITOPS_ORIGIN, GITOPS_SOURCE, GITOPS_BASE, GITOPS_SNAPSHOT, GITOPS_KUBECONFIG, GITOPS_MAX_DELETE,
# GITOPS_MAX_PERCENT, GITOPS_ALLOW, GITOPS_ARGS, GITOPS_REQUIRE_SANDBOX and GITOPS_FAIL_ON.
plan() {
  case ${GITHUB_EVENT_NAME-} in
    '' | pull_request | merge_group | push | schedule | workflow_dispatch) ;;
    *)
      fail "the event $GITHUB_EVENT_NAME can give secrets to a job that reads the checkout of somebody else" \
        "use on: pull_request, merge_group, push, schedule or workflow_dispatch"
      ;;
  esac
  check_fail_on
  path=$(folder path "${GITOPS_PATH:-.}") || exit 1
  restrict_path "$path"
  # Old runners of GitLab write the token into the address of the remote.
  [ -z "${GITOPS_ORIGIN-}" ] || git config remote.origin.url "$GITOPS_ORIGIN"
  refuse_credentials "$path"
  rm -rf "$out" "${work:?}/home" "${work:?}/tmp"
  mkdir -p "$out" "$work/home" "$work/tmp"

  set -- prune --plan
  if [ -n "${GITOPS_SOURCE-}" ]; then
    while read -r source; do
      case $source in
        '') ;;
        *=*)
          other=$(folder "source ${source%%=*}:" "${source#*=}") || exit 1
          restrict_path "$other"
          refuse_credentials "$other"
          set -- "$@" "--source=${source%%=*}=$other"
          ;;
        *) set -- "$@" "--source=$source=$path" ;;
      esac
    done << INPUT
$GITOPS_SOURCE
INPUT
  else
    set -- "$@" "--repo=$path"
    [ -z "${GITOPS_BASE-}" ] || set -- "$@" "--branch=$GITOPS_BASE"
  fi
  if [ -n "${GITOPS_SNAPSHOT-}" ] && [ -n "${GITOPS_KUBECONFIG-}" ]; then fail "pass snapshot or kubeconfig, not both"; fi
  if [ -n "${GITOPS_SNAPSHOT-}" ]; then
    [ ! -L "$GITOPS_SNAPSHOT" ] || fail "snapshot $GITOPS_SNAPSHOT is no file"
    file=$(untracked snapshot "$GITOPS_SNAPSHOT")
    set -- "$@" "--snapshot=$file"
  elif [ -n "${GITOPS_KUBECONFIG-}" ]; then
    file=$(untracked kubeconfig "$GITOPS_KUBECONFIG")
    set -- "$@" "--kubeconfig=$file"
  else
    fail "there is no cluster to plan for" "pass snapshot or kubeconfig"
  fi
  [ -z "${GITOPS_MAX_DELETE-}" ] || set -- "$@" "--max-delete=$GITOPS_MAX_DELETE"
  [ -z "${GITOPS_MAX_PERCENT-}" ] || set -- "$@" "--max-percent=$GITOPS_MAX_PERCENT"
  [ -z "${GITOPS_ALLOW-}" ] || set -- "$@" "--allow=$GITOPS_ALLOW"
  [ "${GITOPS_REQUIRE_SANDBOX:-true}" = false ] || set -- "$@" --require-sandbox
  if fails_on deletion; then set -- "$@" --detailed-exitcode; fi
  while IFS= read -r argument; do
    [ -z "$argument" ] || set -- "$@" "$argument"
  done << INPUT
${GITOPS_ARGS-}
INPUT

  # GitHub reads commands such as ::error:: in the log, so it must not read the texts of the plan.
  pause=''
  if [ -n "${GITHUB_ACTIONS-}" ]; then
    pause=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    printf '::stop-commands::%s\n' "$pause"
  fi
  code=0
  run "$@" -o json "--report=markdown=$out/plan.md" "--report=html=$out/plan.html" > "$out/plan.json" || code=$?
  [ -z "$pause" ] || printf '::%s::\n' "$pause"
  case $code in
    0 | 3 | 5 | 6) ;;
    *) rm -f "$out/plan.json" "$out/plan.md" "$out/plan.html" ;;
  esac
  printf '%s\n' "$code" > "$out/exit-code"
  if [ -n "${GITHUB_OUTPUT-}" ]; then printf 'exit-code=%s\n' "$code" >> "$GITHUB_OUTPUT"; fi
  if [ -n "${GITHUB_STEP_SUMMARY-}" ] && [ -f "$out/plan.md" ]; then cat "$out/plan.md" >> "$GITHUB_STEP_SUMMARY"; fi
}

# GitLab takes artifacts from the checkout only: a new folder, in place of whatever is there.
artifact() {
  [ -d "$out" ] || fail "there is no plan: $out is missing"
  rm -rf -- gitops-plan
  mv -- "$out" gitops-plan
  chmod -R a+rX gitops-plan
}

absolute() {
  case $1 in
    /* | ?:*) printf '%s' "$1" ;;
    *) printf '%s/%s' "$PWD" "$1" ;;
  esac
}

# Prints the exit code of the plan. The files may come from another job, so they are checked.
read_code() {
  if [ -L "$out/exit-code" ] || [ ! -f "$out/exit-code" ]; then fail "there is no plan: $out/exit-code is missing"; fi
  code=$(head -c 4 "$out/exit-code")
  case $code in
    '' | *[!0-9]*) fail "$out/exit-code is no exit code" ;;
  esac
  printf '%s' "$code"
}

# Sends METHOD ADDRESS [FILE], leaves the answer in $work/answer, and ends with a message unless it is a success.
# The token is no argument of curl, because arguments are visible to all processes of the machine.
api() {
  method=$1 address=$2 data=${3-}
  set -- --silent --show-error --max-time 60 --max-filesize 50000000 --proto '=https,http' --request "$method"
  [ -z "$data" ] || set -- "$@" --header 'Content-Type: application/json' --data-binary "@$data"
  status=$(printf 'header = "%s%s"\n' "$token_header" "$GITOPS_TOKEN" |
    curl --config - "$@" --header "Accept: $accept" --output "$work/answer" --write-out '%{http_code}' -- "$address") ||
    fail "$method $address: no answer"
  case $status in
    2??) ;;
    *)
      reason=$(jq --raw-output '.message? // .error? // "no message" | tostring | .[:300] | @json' "$work/answer" \
        2> /dev/null) || reason='no message'
      fail "$method $address: status $status: $reason" "$rights_hint"
      ;;
  esac
}

# Sets $own to the number of the first comment of this author that begins with the marker, or to nothing.
find_own() {
  page=1 own=''
  while [ -z "$own" ]; do
    [ "$page" -le 50 ] || fail "more than 5000 comments were read, and none is that of the plan"
    api GET "$1$page"
    jq --exit-status 'type == "array"' "$work/answer" > /dev/null || fail "GET $1$page: the answer is no list"
    own=$(jq --raw-output --arg marker "$marker" --arg author "$author" \
      "[.[] | select(($2 | tostring) == \$author and ((.body // \"\") | startswith(\$marker)))][0].id // empty" "$work/answer")
    [ "$(jq length "$work/answer")" -eq 100 ] || break
    page=$((page + 1))
  done
  case $own in
    *[!0-9]*) fail "GET $1$page: the id of a comment is no number" ;;
  esac
}

# Renders the plan of plan.json, which another job may have written: everything in it is data, and this program quotes it.
# Sets $code to the exit code of that plan.
render() {
  file=$out/plan.json
  if [ -L "$file" ] || [ ! -f "$file" ] || [ ! -s "$file" ]; then fail "there is no plan: $file is missing or empty"; fi
  [ -x "$work/bin/$(program)" ] || fail "there is no program" "run the step install before this one"
  mkdir -p "$work/home" "$work/tmp"
  code=0
  run plan "--show=$(absolute "$file")" -o markdown > "$work/plan.md" 2> /dev/null || code=$?
  case $code in
    0 | 3 | 5 | 6) ;;
    *) fail "$file is no plan that this version of the program can show" "plan and post with the same version" ;;
  esac
  [ -s "$work/plan.md" ] || fail "$file is an empty plan"
  [ "$(wc -c < "$work/plan.md")" -le 60000 ] || fail "the plan is too long for a comment"
}

# Writes the text of the comment.
text() {
  code=$(read_code)
  case $code in
    0 | 3 | 5 | 6) render ;;
  esac
  printf '%s\n' "$marker"
  [ -z "${GITOPS_NAME-}" ] || printf '**%s**\n\n' "$GITOPS_NAME"
  case $code in
    5) printf '⚠️ **This plan is incomplete** (exit code 5): something could not be read, so a deletion may be missing.\n\n' ;;
    0 | 3 | 6) ;;
    *) printf '🛑 **There is no plan**: kubectl gitops ended with exit code %s. The log of the job has the reason.\n' "$code" ;;
  esac
  case $code in
    0 | 3 | 5 | 6) cat "$work/plan.md" ;;
  esac
  printf '\nCommit: %s' "$GITOPS_COMMIT"
  [ -z "${GITOPS_LINK-}" ] || printf ' · [all files of the plan](%s)' "$GITOPS_LINK"
  printf '\n'
}

# GITOPS_FORGE, GITOPS_API, GITOPS_PROJECT, GITOPS_NUMBER, GITOPS_COMMIT, GITOPS_TOKEN, GITOPS_AUTHOR (GitHub), and
# optionally GITOPS_NAME and GITOPS_LINK.
comment() {
  mkdir -p "$work"
  case ${GITOPS_NUMBER-} in
    '' | *[!0-9]*) fail "this run belongs to no pull request or merge request" "set comment: false for other events" ;;
  esac
  case ${GITOPS_COMMIT-} in
    '' | *[!0-9a-f]*) fail "the commit is no digest" ;;
  esac
  case ${GITOPS_NAME-} in
    *[!A-Za-z0-9._-]*) fail "name may have letters, digits, '.', '_' and '-'" ;;
  esac
  case ${GITOPS_TOKEN-} in
    '') fail "there is no token for comments" ;;
    *[!A-Za-z0-9._~+/=-]*) fail "the token has characters that no token has" ;;
  esac
  marker="<!-- kubectl gitops: plan${GITOPS_NAME:+ $GITOPS_NAME} -->"
  case ${GITOPS_FORGE-} in
    github)
      token_header='Authorization: Bearer ' accept=application/vnd.github+json author=$GITOPS_AUTHOR update=PATCH
      rights_hint="the job needs permissions: {pull-requests: write}"
      comments=$GITOPS_API/repos/$GITOPS_PROJECT/issues/$GITOPS_NUMBER/comments
      one=$GITOPS_API/repos/$GITOPS_PROJECT/issues/comments
      text > "$work/text"
      find_own "$comments?per_page=100&page=" .user.login
      ;;
    gitlab)
      token_header='PRIVATE-TOKEN: ' accept=application/json update=PUT
      rights_hint="the token needs the scope api, and a role that may write notes"
      comments=$GITOPS_API/projects/$GITOPS_PROJECT/merge_requests/$GITOPS_NUMBER/notes
      one=$comments
      text > "$work/text"
      api GET "$GITOPS_API/user"
      author=$(jq --raw-output '.id // empty' "$work/answer")
      [ -n "$author" ] || fail "GET $GITOPS_API/user: the answer has no id"
      find_own "$comments?per_page=100&sort=asc&order_by=created_at&page=" .author.id
      ;;
    *) fail "GITOPS_FORGE is github or gitlab" ;;
  esac
  jq --null-input --rawfile body "$work/text" '{body: $body}' > "$work/body.json"
  if [ -n "$own" ]; then
    api "$update" "$one/$own" "$work/body.json"
    printf 'comment %s updated\n' "$own"
  else
    api POST "$comments" "$work/body.json"
    printf 'comment posted\n'
  fi
}

check_fail_on() {
  for word in $(printf '%s' "${GITOPS_FAIL_ON-}" | tr ',' ' '); do
    case $word in
      deletion | incomplete | limit | never) ;;
      *) fail "fail-on has an unknown word" "use deletion, incomplete, limit, or never" ;;
    esac
  done
}

# Returns true if the job fails on this: deletion, incomplete or limit.
fails_on() {
  case ",$(printf '%s' "${GITOPS_FAIL_ON:-incomplete,limit}" | tr -d ' ')," in
    *",$1,"*) return 0 ;;
    *) return 1 ;;
  esac
}

# GITOPS_FAIL_ON.
verdict() {
  check_fail_on
  code=$(read_code)
  case $code in
    0) exit 0 ;;
    3) word=deletion message="the plan deletes something" ;;
    5) word=incomplete message="the plan is incomplete: a deletion may be missing" ;;
    6) word=limit message="the plan exceeds a limit or breaks a policy" ;;
    *) word='' message="there is no plan: kubectl gitops ended with exit code $code" ;;
  esac
  if [ -z "$word" ] || fails_on "$word"; then
    printf 'error: %s\n' "$message" >&2
    exit "$code"
  fi
  printf '%s; fail-on does not name "%s"\n' "$message" "$word"
}

# The program itself runs no file of the checkout that git does not ignore.
job_path=$PATH
for folder in . "${GITHUB_WORKSPACE:-.}" "${CI_PROJECT_DIR:-.}"; do restrict_path "$folder"; done

case ${1-} in
  install | plan | artifact | comment | verdict) "$1" ;;
  *) fail "usage: plan.sh install | plan | artifact | comment | verdict" ;;
esac
