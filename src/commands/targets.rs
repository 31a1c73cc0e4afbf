//! Which objects of Flux the words on a command line mean, in kubectl's grammar: `TYPE NAME…`, `TYPE/NAME…`,
//! `TYPE1,TYPE2 NAME…` (reference kubectl-and-krew 3.3). Discovery decides what a TYPE is, never a version number.

use crate::error::{Error, Result};
use crate::suggest::nearest;
use gitops_core::flux::kinds;
use gitops_core::flux::kinds::{FluxKind, KINDS};
use gitops_core::kubernetes::object::ResourceType;

/// What was named: types alone, or objects of types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// Every object of these types that the selector lets through.
    Types(Vec<ResourceType>),
    /// These objects: type and name.
    Names(Vec<(ResourceType, String)>),
}

/// Reads the words; none at all mean every kind of Flux that the cluster serves.
///
/// # Errors
/// Usage errors in kubectl's words, with the nearest match as a hint.
pub fn parse(words: &[String], served: &[ResourceType]) -> Result<Targets> {
    let slashed = words.iter().filter(|word| word.contains('/')).count();
    if slashed > 0 && slashed < words.len() {
        let message = "there is no need to specify a resource type as a separate argument when passing arguments in \
                       resource/name form";
        return Err(Error::usage(message).hint("write TYPE NAME, or TYPE/NAME"));
    }
    if slashed > 0 {
        let pairs = words.iter().map(|word| split(word)).collect::<Result<Vec<_>>>()?;
        let named = pairs.into_iter().map(|(kind, name)| Ok((one_type(kind, served)?, name.to_owned())));
        return named_only(named.collect::<Result<_>>()?);
    }
    let Some((first, names)) = words.split_first() else {
        return every_kind(served).map(Targets::Types);
    };
    let mut types = vec![];
    for word in first.split(',').filter(|word| !word.is_empty()) {
        let found = if word == "all" { every_kind(served)? } else { vec![one_type(word, served)?] };
        types.extend(found.into_iter().filter(|new| !types.contains(new)).collect::<Vec<_>>());
    }
    if names.is_empty() {
        return Ok(Targets::Types(types));
    }
    let of_type = |kind: &ResourceType| names.iter().map(|name| (kind.clone(), name.clone())).collect::<Vec<_>>();
    named_only(types.iter().flat_map(of_type).collect())
}

/// A name becomes part of a URL, so it must be one that an object can have.
fn named_only(names: Vec<(ResourceType, String)>) -> Result<Targets> {
    let possible = |c: char| c.is_ascii_alphanumeric() || "-.:_".contains(c);
    match names.iter().find(|(_, name)| name.starts_with('.') || !name.chars().all(possible)) {
        Some((_, name)) => Err(Error::usage(format!("{name:?} cannot be the name of an object"))),
        None => Ok(Targets::Names(names)),
    }
}

fn split(word: &str) -> Result<(&str, &str)> {
    match word.split('/').collect::<Vec<_>>()[..] {
        [kind, name] if !kind.is_empty() && !name.is_empty() => Ok((kind, name)),
        [_, _] => Err(Error::usage(format!("{word:?} is not TYPE/NAME"))),
        _ => Err(Error::usage("arguments in resource/name form may not have more than one slash")),
    }
}

/// Every kind of Flux that the cluster serves, in the order in which they depend on one another.
fn every_kind(served: &[ResourceType]) -> Result<Vec<ResourceType>> {
    let find = |kind: &FluxKind| served.iter().find(|known| known.is(kind.group, kind.kind)).cloned();
    let found: Vec<_> = KINDS.iter().filter_map(find).collect();
    if found.is_empty() {
        return Err(Error::failed("the server has no resource type of Flux")
            .hint("install Flux, or choose another cluster with --context"));
    }
    Ok(found)
}

/// The type that one word means.
fn one_type(word: &str, served: &[ResourceType]) -> Result<ResourceType> {
    let mut matching: Vec<_> = served.iter().filter(|known| means(known, word)).collect();
    matching.dedup_by(|a, b| a.group == b.group && a.kind == b.kind);
    match matching[..] {
        [] => Err(unknown(word, served)),
        [one] if kinds::find(&one.group, &one.kind).is_some() => Ok(one.clone()),
        [other] => {
            let error = Error::usage(format!("{} is not a kind of Flux", other.resource()));
            Err(error.hint("`kubectl gitops get` lists what Flux reconciles here"))
        }
        _ => {
            let names: Vec<_> = matching.iter().map(|known| known.resource()).collect();
            let error = Error::usage(format!("{word:?} is the name of {} resource types", names.len()));
            Err(error.hint(format!("say which: {}", names.join(" or "))))
        }
    }
}

/// Whether a word names a type: plural, singular, kind or short name, with or without `.GROUP` or `.VERSION.GROUP`.
pub fn means(known: &ResourceType, word: &str) -> bool {
    let word = word.to_lowercase();
    let (name, rest) = word.split_once('.').unwrap_or((&word, ""));
    let in_group = rest.is_empty()
        || rest == &*known.group
        || rest.strip_prefix(&*known.version).is_some_and(|rest| rest.strip_prefix('.') == Some(&known.group));
    in_group && names(known).iter().any(|known| *known == name)
}

fn names(known: &ResourceType) -> Vec<String> {
    let aliases = kinds::find(&known.group, &known.kind).map_or(&[][..], |kind| kind.aliases);
    let mut names = vec![known.plural.to_lowercase(), known.singular.to_lowercase(), known.kind.to_lowercase()];
    names.extend(known.short_names.iter().map(|name| name.to_lowercase()));
    names.extend(aliases.iter().map(|alias| (*alias).to_owned()));
    names
}

fn unknown(word: &str, served: &[ResourceType]) -> Error {
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
    let known: Vec<_> = flux.flat_map(names).collect();
    match nearest(&name, known.iter().map(String::as_str)) {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None => error.hint("`kubectl gitops get` lists what Flux reconciles here"),
    }
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

    fn read(words: &str) -> Result<String, Error> {
        let words: Vec<_> = words.split_whitespace().map(str::to_owned).collect();
        Ok(match parse(&words, &served())? {
            Targets::Types(types) => types.iter().map(|kind| kind.resource()).collect::<Vec<_>>().join(" "),
            Targets::Names(names) => {
                names.iter().map(|(kind, name)| format!("{}/{name}", kind.kind)).collect::<Vec<_>>().join(" ")
            }
        })
    }

    #[test]
    fn words_mean_what_they_mean_to_kubectl() {
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
    fn what_cannot_be_meant_is_said_with_a_hint() {
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
        assert!(parse(&[], &served()[..1]).unwrap_err().message.contains("no resource type of Flux"));
    }
}
