//! Resource arguments in the grammar of kubectl: `TYPE NAME…`, `TYPE/NAME…`, `TYPE1,TYPE2 NAME…`, label selectors and kinds.
//!
//! Discovery decides what a TYPE is, not a version number. Source: docs/reference/kubectl-plugin.md 3.3.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::suggest::nearest;
use gitops_core::flux::kinds;
use gitops_core::flux::kinds::KINDS;
use gitops_core::kubernetes::object::{GroupKind, ObjectId, ResourceType};
use gitops_core::kubernetes::selector::Selector;
use gitops_core::kubernetes::snapshot::Snapshot;
use gitops_core::ownership::Members;
use gitops_core::ownership::index::Index;
use gitops_core::text::join_limited;

/// Number of types that a hint names.
const NAMED: usize = 10;

/// Types, or objects of types, that the words of a command line name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResourceArgs {
    /// All objects of these types.
    Types(Vec<ResourceType>),
    /// Objects by type and name.
    Names(Vec<(ResourceType, String)>),
}

impl ResourceArgs {
    /// Parses words. No words name every kind of Flux that the cluster serves. Errors are in the words of kubectl, with
    /// the nearest match as a hint.
    pub(crate) fn parse(words: &[String], served: &[ResourceType]) -> Result<Self> {
        let slashes = words.iter().filter(|word| word.contains('/')).count();
        if slashes > 0 && slashes < words.len() {
            let message = "there is no need to specify a resource type as a separate argument when passing arguments \
                           in resource/name form";
            return Err(Error::usage(message).hint("write TYPE NAME, or TYPE/NAME"));
        }
        if slashes > 0 {
            let mut named = vec![];
            for word in words {
                let (kind, name) = split_type_name(word)?;
                named.push((flux_type(kind, served)?, name.to_owned()));
            }
            return Self::checked_names(named);
        }
        let Some((first, names)) = words.split_first() else {
            return flux_types(served).map(Self::Types);
        };
        let mut types: Vec<ResourceType> = vec![];
        for word in first.split(',').filter(|word| !word.is_empty()) {
            let found = if word == "all" { flux_types(served)? } else { vec![flux_type(word, served)?] };
            for kind in found {
                if !types.contains(&kind) {
                    types.push(kind);
                }
            }
        }
        if types.is_empty() {
            return Err(unknown_type(first, served));
        }
        if names.is_empty() {
            return Ok(Self::Types(types));
        }
        let pairs = types.iter().flat_map(|kind| names.iter().map(|name| (kind.clone(), name.clone())));
        Self::checked_names(pairs.collect())
    }

    /// Checks that objects can have these names, which become part of URLs.
    fn checked_names(names: Vec<(ResourceType, String)>) -> Result<Self> {
        if names.iter().any(|(_, name)| name.is_empty()) {
            return Err(Error::usage("resource name may not be empty"));
        }
        match names.iter().find(|(_, name)| name.starts_with('.') || !name.chars().all(is_name_character)) {
            Some((_, name)) => Err(Error::usage(format!("{name:?} cannot be the name of an object"))),
            None => Ok(Self::Names(names)),
        }
    }
}

fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-.:_".contains(c)
}

fn split_type_name(word: &str) -> Result<(&str, &str)> {
    match word.split('/').collect::<Vec<_>>()[..] {
        [kind, name] if !kind.is_empty() && !name.is_empty() => Ok((kind, name)),
        [_, _] => Err(Error::usage(format!("{word:?} is not TYPE/NAME"))),
        _ => Err(Error::usage("arguments in resource/name form may not have more than one slash")),
    }
}

/// Returns every kind of Flux that the cluster serves, in the order of dependencies.
fn flux_types(served: &[ResourceType]) -> Result<Vec<ResourceType>> {
    let found: Vec<_> =
        KINDS.iter().filter_map(|kind| served.iter().find(|known| known.is(kind.group, kind.kind))).cloned().collect();
    if found.is_empty() {
        return Err(Error::failed("the server has no resource type of Flux")
            .hint("install Flux, or choose another cluster with --context"));
    }
    Ok(found)
}

/// Returns the kind of Flux that a word names.
fn flux_type(word: &str, served: &[ResourceType]) -> Result<ResourceType> {
    let mut matching: Vec<_> = served.iter().filter(|known| is_named(known, word)).collect();
    matching.dedup_by(|a, b| a.group == b.group && a.kind == b.kind);
    match matching[..] {
        [] => Err(unknown_type(word, served)),
        [one] if kinds::find(&one.group, &one.kind).is_some() => Ok(one.clone()),
        [other] => {
            let error = Error::usage(format!("{} is not a kind of Flux", other.resource()));
            Err(error.hint("`kubectl gitops get` lists the objects of Flux"))
        }
        _ => {
            let names: Vec<_> = matching.iter().map(|known| known.resource()).collect();
            let error = Error::usage(format!("{word:?} is the name of {} resource types", names.len()));
            Err(error.hint(format!("use {}", names.join(" or "))))
        }
    }
}

/// Returns true if a word is the plural, singular, kind or a short name of a type. `.GROUP` or `.VERSION.GROUP` may follow.
pub(crate) fn is_named(known: &ResourceType, word: &str) -> bool {
    let lower = word.to_lowercase();
    let (name, rest) = lower.split_once('.').unwrap_or((&lower, ""));
    let in_group = rest.is_empty()
        || rest == &*known.group
        || rest.strip_prefix(&*known.version).is_some_and(|rest| rest.strip_prefix('.') == Some(&known.group));
    in_group && type_names(known).iter().any(|known| *known == name)
}

fn type_names(known: &ResourceType) -> Vec<String> {
    let aliases = kinds::find(&known.group, &known.kind).map_or(&[][..], |kind| kind.aliases);
    let mut names = vec![known.plural.to_lowercase(), known.singular.to_lowercase(), known.kind.to_lowercase()];
    names.extend(known.short_names.iter().map(|name| name.to_lowercase()));
    names.extend(aliases.iter().map(|alias| (*alias).to_owned()));
    names
}

fn unknown_type(word: &str, served: &[ResourceType]) -> Error {
    let error = Error::usage(format!("the server doesn't have a resource type {word:?}"));
    let name = word.split_once('.').map_or(word, |(name, _)| name).to_lowercase();
    let missing = KINDS.iter().find(|kind| {
        let singular = kind.kind.to_lowercase();
        singular == name || format!("{singular}s") == name || kind.aliases.contains(&&*name)
    });
    if let Some(kind) = missing {
        return error.hint(format!("{} is a kind of Flux, but this cluster has no CRD of it", kind.kind));
    }
    let flux = served.iter().filter(|known| kinds::find(&known.group, &known.kind).is_some());
    let known: Vec<_> = flux.flat_map(type_names).collect();
    match nearest(&name, known.iter().map(String::as_str)) {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None => error.hint("`kubectl gitops get` lists the objects of Flux"),
    }
}

/// Returns the TYPE and the NAME of one object: `TYPE/NAME` or `TYPE NAME`.
pub(crate) fn type_and_name(words: &[String]) -> Result<(&str, &str)> {
    match words {
        [word] if word.contains('/') => split_type_name(word),
        [kind, name] if !kind.contains('/') && !name.contains('/') => Ok((kind, name)),
        _ => Err(Error::usage(format!("{:?} is not TYPE/NAME", words.join(" ")))
            .hint("name one object, such as deployment/web")),
    }
}

/// Returns the served types that a word names, as kubectl does. Fails if there is none; the hint has the nearest one.
pub(crate) fn served_types<'a>(word: &str, snapshot: &'a Snapshot) -> Result<Vec<&'a ResourceType>> {
    let named: Vec<&ResourceType> = snapshot.types.iter().filter(|known| is_named(known, word)).collect();
    if !named.is_empty() {
        return Ok(named);
    }
    let error = Error::usage(format!("the server doesn't have a resource type {word:?}"));
    Err(with_nearest_type(error, word, &snapshot.types))
}

fn with_nearest_type(error: Error, word: &str, known: &[ResourceType]) -> Error {
    let names: Vec<String> = known
        .iter()
        .flat_map(|kind| [kind.plural.to_string(), kind.kind.to_lowercase()])
        .chain(known.iter().map(ResourceType::resource))
        .collect();
    match nearest(word, names.iter().map(String::as_str)) {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None => error.hint(format!("there are {}", join_limited(known.iter().map(|kind| &kind.plural), NAMED))),
    }
}

/// Parses a label selector. kubectl leaves this to the API server.
pub(crate) fn parse_selector(text: &str) -> Result<Selector> {
    Selector::parse(text).map_err(|why| {
        Error::usage(format!("the label selector {text:?} cannot be parsed: {why}"))
            .hint("for example -l 'app=web,tier!=db' or -l 'env in (dev, prod),!canary'")
    })
}

/// Returns the kinds that words name. A word may name several types. Kinds of recorded objects that the cluster does not
/// serve any more can be named too.
pub(crate) fn parse_kinds(words: &[String], index: &Index<'_>) -> Result<Vec<GroupKind>> {
    if words.is_empty() {
        return Ok(vec![]);
    }
    let known = known_types(index);
    let mut kinds = BTreeSet::new();
    for word in words.iter().map(|word| word.trim()).filter(|word| !word.is_empty()) {
        let mut named = known.iter().filter(|kind| is_named(kind, word)).map(ResourceType::group_kind).peekable();
        if named.peek().is_none() {
            let error = Error::usage(format!("no resource type {word:?} in this cluster or in an owner's inventory"));
            return Err(with_nearest_type(error, word, &known));
        }
        kinds.extend(named);
    }
    if kinds.is_empty() {
        return Err(Error::usage("--kind names no resource type").hint("for example --kind deployments,configmaps"));
    }
    Ok(kinds.into_iter().collect())
}

/// Returns the served types, and a type for each kind that only inventories and objects have.
fn known_types(index: &Index<'_>) -> Vec<ResourceType> {
    let snapshot = index.snapshot();
    let mut known = snapshot.types.clone();
    let recorded = index.owners().flat_map(|owner| match &owner.members {
        Members::Listed(ids) | Members::Remote(ids) => ids.as_slice(),
        _ => &[],
    });
    let ids = recorded.chain(snapshot.ids());
    let kinds: BTreeSet<GroupKind> = ids.map(ObjectId::group_kind).collect();
    for GroupKind { group, kind } in kinds {
        if snapshot.types.iter().any(|served| served.is(&group, &kind)) {
            continue;
        }
        let singular = kind.to_lowercase();
        known.push(ResourceType {
            group,
            version: "".into(),
            kind,
            plural: format!("{singular}s").into(),
            singular: singular.into(),
            short_names: vec![],
            namespaced: true,
        });
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(group: &str, kind: &str, short: &[&str]) -> ResourceType {
        let singular = kind.to_lowercase();
        ResourceType {
            group: group.into(),
            version: "v1".into(),
            kind: kind.into(),
            plural: if let Some(stem) = singular.strip_suffix('y') {
                format!("{stem}ies")
            } else {
                format!("{singular}s")
            }
            .into(),
            singular: singular.into(),
            short_names: short.iter().map(|name| (*name).into()).collect(),
            namespaced: true,
        }
    }

    fn served() -> Vec<ResourceType> {
        vec![
            kind("apps", "Deployment", &["deploy"]),
            kind("kustomize.toolkit.fluxcd.io", "Kustomization", &["ks"]),
            kind("helm.toolkit.fluxcd.io", "HelmRelease", &[]),
            kind("source.toolkit.fluxcd.io", "GitRepository", &["gitrepo"]),
            kind("notification.toolkit.fluxcd.io", "Provider", &[]),
            kind("pkg.crossplane.io", "Provider", &[]),
        ]
    }

    #[test]
    fn an_empty_word_names_nothing() {
        let error = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
            ResourceArgs::parse(&words, &served()).unwrap_err().to_string()
        };
        assert_eq!(error(&["ks", ""]), "resource name may not be empty");
        assert_eq!(error(&[""]), "the server doesn't have a resource type \"\"");
    }

    fn read(words: &str) -> Result<String, Error> {
        let words: Vec<_> = words.split_whitespace().map(str::to_owned).collect();
        Ok(match ResourceArgs::parse(&words, &served())? {
            ResourceArgs::Types(types) => types.iter().map(|kind| kind.resource()).collect::<Vec<_>>().join(" "),
            ResourceArgs::Names(names) => {
                names.iter().map(|(kind, name)| format!("{}/{name}", kind.kind)).collect::<Vec<_>>().join(" ")
            }
        })
    }

    #[test]
    fn words_name_types_and_objects_as_in_kubectl() {
        let kustomizations = "kustomizations.kustomize.toolkit.fluxcd.io";
        for (words, expected) in [
            ("kustomizations", kustomizations),
            ("Kustomization", kustomizations),
            ("ks", kustomizations),
            ("kustomization.kustomize.toolkit.fluxcd.io", kustomizations),
            ("kustomizations.v1.kustomize.toolkit.fluxcd.io", kustomizations),
            ("hr", "helmreleases.helm.toolkit.fluxcd.io"),
            ("provider.notification.toolkit.fluxcd.io", "providers.notification.toolkit.fluxcd.io"),
            ("ks apps infra", "Kustomization/apps Kustomization/infra"),
            ("ks,hr apps", "Kustomization/apps HelmRelease/apps"),
            ("ks/apps gitrepo/flux-system", "Kustomization/apps GitRepository/flux-system"),
        ] {
            assert_eq!(read(words).unwrap(), expected, "{words}");
        }
        let all = read("").unwrap();
        assert_eq!(all, read("all").unwrap());
        assert_eq!(all.split(' ').count(), 4, "{all}");
        assert!(all.find("gitrepositories") < all.find("kustomizations"), "sources come first: {all}");
    }

    #[test]
    fn words_that_name_nothing_are_errors_with_a_hint() {
        for (words, message, hint) in [
            (
                "kustomizatoin x",
                "the server doesn't have a resource type \"kustomizatoin\"",
                "did you mean kustomization?",
            ),
            ("buckets", "resource type \"buckets\"", "Bucket is a kind of Flux, but this cluster has no CRD of it"),
            ("deploy web", "deployments.apps is not a kind of Flux", "kubectl gitops get"),
            ("provider x", "\"provider\" is the name of 2", "providers.pkg.crossplane.io"),
            ("ks/apps infra", "no need to specify a resource type", "TYPE/NAME"),
            ("a/b/c", "more than one slash", ""),
            ("ks/", "\"ks/\" is not TYPE/NAME", ""),
            ("ks ..", "cannot be the name of an object", ""),
            ("ks a%2fb", "cannot be the name of an object", ""),
        ] {
            let error = read(words).unwrap_err();
            assert!(error.message.contains(message), "{words}: {}", error.message);
            assert!(error.hint.unwrap_or_default().contains(hint), "{words}");
            assert_eq!(error.exit, crate::exit::ExitCode::Usage, "{words}");
        }
        assert!(ResourceArgs::parse(&[], &served()[..1]).unwrap_err().message.contains("no resource type of Flux"));
    }
}
