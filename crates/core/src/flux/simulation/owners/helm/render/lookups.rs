//! Lookups of the templates of a chart in the cluster of its release.
//!
//! Source: Helm v4.2.2 `pkg/engine/lookup_func.go`. The rights are those of the account of the release. A Secret is read only
//! if it is one of the release: a tree must not choose which Secrets are read.

use serde_json::{Value, json};

use super::rendering::Place;
use crate::flux::apply::question::{Question, Request};
use crate::flux::build::Interrupt;
use crate::flux::build::objects::query::{ClusterQuery, ObjectQuery, QueryAnswer};
use crate::flux::simulation::model::questions::Verdict;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison, Part};
use crate::kubernetes::object::ObjectId;
use crate::ownership::Members;

impl Place<'_> {
    /// Returns the answer to a lookup; an empty map if the object does not exist. Returns the refusal if the release may not
    /// look it up.
    ///
    /// Fails with the reason why the answer is not known.
    pub(crate) fn looked_up(
        &self,
        comparison: &mut Comparison<'_, '_, '_>,
        query: &ObjectQuery,
    ) -> Asked<Result<Value, String>> {
        let cluster = self.cluster.clone();
        let kind = query.group_kind();
        let Some(served) = self.snapshot.types.iter().find(|served| served.is(&kind.group, &kind.kind)) else {
            return Err(format!("its chart looks up {kind}, which the cluster does not serve").into());
        };
        let id = query.id(served.namespaced).in_cluster(cluster.as_ref());
        let what = described(&id);
        if let Some(touched) = touched(comparison, &id)? {
            return Err(
                format!("its chart looks up {what}, and the change may create, change or delete {touched}").into()
            );
        }
        let is_secret = id.is("", "Secret");
        if is_secret && !self.may_read(comparison, &id) {
            let why = format!("its chart looks up {what}, and only Secrets in the inventory of the release are read");
            return Err(why.into());
        }
        let question = Question::of_owner(&self.id, &self.spec, &id, Request::Read, false);
        if let Verdict::Refused(message) = comparison.derivation.ask(question) {
            return Ok(Err(format!("its chart may not look up {what}: {message}")));
        }
        let query = ClusterQuery { cluster, query: query.clone() };
        match comparison.derivation.answers.queries.get(&query) {
            Some(QueryAnswer::Found(found)) => Ok(Ok(found.clone())),
            Some(QueryAnswer::Missing) => Ok(Ok(json!({}))),
            Some(QueryAnswer::Unreadable(why)) => {
                Err(format!("its chart looks up {what}, which cannot be read: {why}").into())
            }
            None => {
                comparison.derivation.needs.queries.insert(query);
                Err(Interrupt::Missing)
            }
        }
    }

    /// Returns true if a Secret does not exist, or is in the inventory of the release. A list of Secrets is not read.
    fn may_read(&self, comparison: &Comparison<'_, '_, '_>, id: &ObjectId) -> bool {
        let state = comparison.state();
        let is_own = match state.input.snapshot.resource(&self.id).map(|live| state.members(live)) {
            Some(Members::Listed(members)) => members.contains(id),
            _ => false,
        };
        !id.name.is_empty() && (is_own || !state.is_live(id))
    }
}

/// Returns the object of a lookup for people.
fn described(id: &ObjectId) -> String {
    match (&*id.name, &*id.namespace) {
        ("", "") => format!("all of {}", id.group_kind()),
        ("", namespace) => format!("all of {} -n {namespace}", id.group_kind()),
        _ => id.to_string(),
    }
}

/// Returns an object of a lookup that the change creates, changes or deletes.
fn touched(comparison: &mut Comparison<'_, '_, '_>, looked_up: &ObjectId) -> Asked<Option<ObjectId>> {
    let all = comparison.ids_of(&looked_up.group, &looked_up.kind).into_iter();
    let ids: Vec<ObjectId> = all
        .filter(|id| looked_up.name.is_empty() || id.name == looked_up.name)
        .filter(|id| looked_up.namespace.is_empty() || id.namespace == looked_up.namespace)
        .filter(|id| id.cluster == looked_up.cluster)
        .collect();
    let is_data = looked_up.is("", "ConfigMap") || looked_up.is("", "Secret");
    let part = if is_data { Part::Data(None) } else { Part::SpecAndLabels };
    for id in ids {
        if comparison.difference(&id, part)?.is_some() {
            return Ok(Some(id));
        }
    }
    Ok(None)
}
