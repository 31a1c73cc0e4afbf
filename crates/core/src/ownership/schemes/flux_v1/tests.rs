//! Every example of docs/reference/qbec-and-flux-v1.md 6, byte for byte.

use super::*;
use crate::ownership::rules::protection::find_protection;
use crate::ownership::scheme::last_applied::KUBECTL;
use crate::testing::{Build, object};

fn source(url: &str, branch: &str, paths: &[&str]) -> GitSource {
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    GitSource { url: url.to_owned(), branch: branch.to_owned(), paths }
}

/// Sync set names in the URL table of docs/reference/qbec-and-flux-v1.md 6, for branch master without paths.
const SYNC_SETS: [(&str, &str); 30] = [
    ("git@github.com:fluxcd/flux-get-started", "aBqHLTvk4pWff65LXXwheu1mmzfQkdC96YNjgC-1u0Q"),
    ("ssh://git@github.com/fluxcd/flux-get-started", "aBqHLTvk4pWff65LXXwheu1mmzfQkdC96YNjgC-1u0Q"),
    ("git@github.com:fluxcd/flux-get-started.git", "FQqI4-ayF-I91o2Vuu9eb71IVo45B1XEgVKBQYV9uuY"),
    ("github.com:fluxcd/flux-get-started", "Kdj542LjR16-KC1TvuE6ApkhG0VFBKa5Lupp2Z3X-DI"),
    ("ssh://git@github.com:22/fluxcd/flux-get-started", "gM32_pMY6DhJpawIiCus5hE2fMoxPWgRJ2KVlsreHIU"),
    ("https://github.com/fluxcd/flux-get-started", "C3WHcgQd7eZ9UOF_nJ1N44oPZs_1rxD2H8JsuNJ8eh4"),
    ("https://user:s3cret@github.com/fluxcd/flux-get-started", "v0PR5cfYWtCHUjDOVTZEy5xw-7LCZFgzFCop2VgQOB8"),
    ("https://user@github.com/fluxcd/flux-get-started", "v0PR5cfYWtCHUjDOVTZEy5xw-7LCZFgzFCop2VgQOB8"),
    ("https://ghp_abc@github.com/o/r", "taaqe4FAlfxwq5i8yjtpO9j_GBCsyxUFDxRTZ8VG3H0"),
    ("https://:token@host/r", "ZBXtxyqI8FZzGVW8dOepoXab6Vbobu6otRgrxrZfwCU"),
    ("https://oauth2:token@gitlab.com/g/r.git", "Yzm030wDUZ1itsBLlN9gLirNG0p0XdovYVLHOB2uo7Y"),
    ("git@ssh.dev.azure.com:v3/org/proj/repo", "pNzKkz1NY-Sd-EXmz0FM-gqYQSHlcccsZHfSyzxAgQc"),
    ("git@host:2222/org/repo.git", "5WfbcCuAd3Vs2sjpEPFOJa3rsAO57ydz8V5cjdTg4I4"),
    ("org-123456@github.com:org/repo.git", "pODL9op7-LkRxM8UKpMNJjPLIGF66OuNiw16xZtOZdQ"),
    ("git@github.com:~user/repo", "eojGqw9q2LuD3bzfJLpC7c4IWgas9LFJmBvWcxPt674"),
    ("git@host:org/repo~x", "X08at_32BMj5JMzqFUkN_6HNHm0kRur5oHE1g0OzGOk"),
    ("HTTPS://GitHub.com/a/b", "mG0CxNeEJlzouplaaiR5o1TRiz7mAgwBvlaov9Y2iqc"),
    ("https://host", "M_dGzSWY-pMX2jGx0dn_7tbp27WOTn4sjQaWyy1cKGE"),
    ("https://host/", "FjWFKgrQ43ITc8FQOkjsMU8YJpEbZf3_ipP-NkAhni4"),
    ("https://host:443/a", "koG8-DiVHryrAsKNgjxNWL94oae3o8CyMeXJAi4__VU"),
    ("https://host/a%2Fb", "3QUZRwg7tqDETG817KvrxD0kehFOteg6daWNtZiQNhw"),
    ("https://host/é", "VdtHLNbtHabHXcR-_LWH55sMdFg4yiKkE0DuFtlxJTM"),
    ("https://u+s:p@host/r", "slP7cphbwN8RH6h63O0n2W-dH1VWebmDrCDRmSjhmF0"),
    ("https://u%2Bs:p@host/r", "slP7cphbwN8RH6h63O0n2W-dH1VWebmDrCDRmSjhmF0"),
    ("https://$(GIT_AUTHUSER):$(GIT_AUTHKEY)@github.com/a/b", "kJgX60t0t8QuowchOWippuOJeOLzUD-0mYpt32QHl44"),
    ("/abs/repo.git", "x_ZU1B904uwI0Sff2m8r_MDhj8OaUxqU6ZOcfep-Fkg"),
    ("file:///abs/repo.git", "x_ZU1B904uwI0Sff2m8r_MDhj8OaUxqU6ZOcfep-Fkg"),
    ("./rel/repo", "qHY7Ln7SJUKnJfsTbTUmGugDmQ77Wu7jKy0FUFrT8O0"),
    ("", "AyGzE7DOtNOo2Z3Hfc5s1zsPODGLASaLhAhg37jIZA8"),
    ("ssh://git@github.com:org/repo", "xYBgW5sti7oyIJKTT863se7PgYMz5C8R1gZAbiIFzws"),
];

#[test]
fn every_sync_set_of_the_table_is_byte_exact() {
    for (url, sync_set) in SYNC_SETS {
        assert_eq!(source(url, "master", &[]).sync_set(), sync_set, "{url}");
    }
}

#[test]
fn vectors_v1_to_v8_hash_url_branch_and_paths_without_separators() {
    let ssh = "git@github.com:fluxcd/flux-get-started";
    let v2 = "-pqIRfAJPfVJ2vnNArkckfQYfyg4QTwfNzzk3-7Lnf0";
    let v7 = "CWOZbIW-P0bqjueGRTH9xGI_NyebAcR9CTUA2dZLdSU";
    let rows: [(&str, &str, &[&str], &str); 8] = [
        ("V1", "master", &[], "aBqHLTvk4pWff65LXXwheu1mmzfQkdC96YNjgC-1u0Q"),
        ("V2", "master", &["namespaces", "workloads"], v2),
        ("V3", "master", &["workloads", "namespaces"], "BgOjr3lG3drENWn1t9hCwrkCI-n80h_oAfbo_OI5Ejo"),
        ("V5", "main", &[], "CuYRs4SgOZLujVB-V1Uj6M6QhWoA4u-2QcyEGdwN5KA"),
        ("V6", "master", &["namespacesworkloads"], v2),
        ("V7", "master", &["namespaces"], v7),
        ("V8", "masternamespaces", &[], v7),
        ("V1 again", "master", &[""], "aBqHLTvk4pWff65LXXwheu1mmzfQkdC96YNjgC-1u0Q"),
    ];
    for (name, branch, paths, sync_set) in rows {
        assert_eq!(source(ssh, branch, paths).sync_set(), sync_set, "{name}");
    }
}

#[test]
fn vectors_v1_to_v10_mark_objects() {
    let v1 = "aBqHLTvk4pWff65LXXwheu1mmzfQkdC96YNjgC-1u0Q";
    let v2 = "-pqIRfAJPfVJ2vnNArkckfQYfyg4QTwfNzzk3-7Lnf0";
    let v3 = "BgOjr3lG3drENWn1t9hCwrkCI-n80h_oAfbo_OI5Ejo";
    let v4 = "C3WHcgQd7eZ9UOF_nJ1N44oPZs_1rxD2H8JsuNJ8eh4";
    let hello = ObjectId::new("apps", "Deployment", "default", "helloworld");
    let demo = ObjectId::new("", "Namespace", "", "demo");
    let podinfo = ObjectId::new("apps", "Deployment", "demo", "podinfo");
    let rows = [
        (v1, &hello, "sha256.7YRHTchP7M6rFENk6k74TlwnfcdpuNSGd65HiPEcbd4"),
        (v1, &demo, "sha256.3xa9FRFtnbm0cAHvO6Lta6l0xPtwpoiQBqRt4-XxOD0"),
        (v2, &hello, "sha256.Yzb_nsNRAKeeP1Ekt8pJG2-bwB8pFHV8OzmdqwoGuTs"),
        (v2, &demo, "sha256.FmpeZYYuCH4G3PLe1IbCW6iEkLbbxK3XJ9fn3WSU2g0"),
        (v3, &hello, "sha256.paz1Uc7XUKZJ-rfYMA4YG_x9-OloC_aDABFFnKQITzs"),
        (v3, &demo, "sha256.sLly5R6wJ0BF_DUR3l9kTU15p48tLQGIHfKmf0KH_dg"),
        (v4, &hello, "sha256.Yy8gRSzityqCWQZw6U1AHlEA-mYpuvv3AyP98HDlLXU"),
        (v4, &demo, "sha256.RoiyTNU7UcKQJ5W2AjJ3jJnuz6unyQ6o0L7m3TOlIOo"),
        ("testset", &hello, "sha256.gX5mIS49gG_sDFI4lUbG3JYWe4MsEZ-Iq84_YcxUV4A"),
        ("testset", &demo, "sha256.QQEvJJWiRFXjgGt8N8KAH71qTuxgh5_lBGY8_ngaKhE"),
        (v1, &podinfo, "sha256.BhHY4aw2RoJbixnOKQD-rhRxC3rJpgatGRErCSLo07w"),
    ];
    for (sync_set, id, expected) in rows {
        assert_eq!(mark(sync_set, &resource_id(id)), expected, "{id}");
        assert!(is_well_formed(expected));
    }
    assert_eq!(
        mark("default", "prod:deployment/web"),
        "sha256.zgPLyDnUN3PV8dlYIJKv84LquR2a-6YRm_Aob3K-cG8",
        "vector of ownership-and-prune 2.2"
    );
}

#[test]
fn marks_that_cannot_be_are_malformed() {
    let good = "sha256.7YRHTchP7M6rFENk6k74TlwnfcdpuNSGd65HiPEcbd4";
    for bad in ["", "sha256.", "true", &good[7..], &good[..49], &format!("{}5", &good[..49]), &format!("{good}A")] {
        assert!(!is_well_formed(bad), "{bad}");
        let marked = object("", "ConfigMap", "demo", "cm").label(MARK, bad);
        assert_eq!(claim(&marked).unwrap().strength, Strength::Contradicted, "{bad}");
    }
}

#[test]
fn last_applied_is_the_witness_of_an_unknown_source() {
    let marked = object("", "ConfigMap", "demo", "cm").label(MARK, &mark("x", "demo:configmap/cm"));
    assert_eq!(claim(&marked).unwrap().strength, Strength::Bare);
    let own = marked.clone().annotation(KUBECTL, "/ConfigMap/demo/cm");
    assert_eq!(claim(&own).unwrap().strength, Strength::Corroborated);
    let other = marked.annotation(KUBECTL, "/ConfigMap/demo/other");
    assert_eq!(claim(&other).unwrap().strength, Strength::Contradicted);
}

#[test]
fn ignore_protects_under_either_key() {
    let keys = ["fluxcd.io/ignore", "flux.weave.works/ignore"];
    let rows = [("true", true), ("sync_only", true), ("True", true), ("false", false), ("yes", true)];
    for (value, kept) in rows {
        for key in keys {
            let marked = object("", "ConfigMap", "demo", "cm").annotation(key, value);
            assert_eq!(find_protection(&marked).is_some(), kept, "{key}={value}");
        }
    }
    let locked = object("", "ConfigMap", "demo", "cm").annotation("fluxcd.io/locked", "true");
    assert_eq!(find_protection(&locked), None);
    let both = object("", "ConfigMap", "demo", "cm").annotation(keys[0], "false").annotation(keys[1], "true");
    assert!(find_protection(&both).is_some(), "F17");
}
