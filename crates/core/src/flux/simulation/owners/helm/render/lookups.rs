//! Lookups of the templates of a chart in the cluster of its release.
//!
//! Source: Helm v4.2.2 `pkg/engine/lookup_func.go`. The rights are those of the account of the release. A Secret is
//! read only if it is one of the release: a tree must not choose which Secrets are read. What is looked up is said by a
//! render without values of Secrets: a request shows the words of a lookup, and which lookups there are, in which
//! order, can tell a value too.

use serde_json::{Map, Value, json};

use super::rendering::Place;
use crate::flux::apply::question::{Question, Request};
use crate::flux::build::Interrupt;
use crate::flux::build::objects::query::{ClusterQuery, ObjectQuery, QueryAnswer};
use crate::flux::simulation::model::questions::Verdict;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison, Part};
use crate::kubernetes::object::{ObjectId, list_at, text_at};
use crate::ownership::Members;

impl Place<'_> {
    /// Returns the answer to a lookup; an empty map if the object does not exist. Returns the refusal if the release
    /// may not look it up.
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
        let found = match comparison.derivation.answers.queries.get(&query) {
            Some(QueryAnswer::Found(found)) => found.clone(),
            Some(QueryAnswer::Missing) => json!({}),
            Some(QueryAnswer::Unreadable(why)) => {
                return Err(format!("its chart looks up {what}, which cannot be read: {why}").into());
            }
            None => {
                comparison.derivation.needs.queries.insert(query);
                return Err(Interrupt::Missing);
            }
        };
        match self.touched(comparison, &id, &found)? {
            Some(touched) => {
                Err(format!("its chart looks up {what}, and the change may create, change or delete {touched}").into())
            }
            None => Ok(Ok(found)),
        }
    }

    /// Returns an object of a lookup that the change creates, changes or deletes before the release is upgraded for the
    /// last time.
    fn touched(
        &self,
        comparison: &mut Comparison<'_, '_, '_>,
        looked_up: &ObjectId,
        found: &Value,
    ) -> Asked<Option<ObjectId>> {
        let all = comparison.ids_of(&looked_up.group, &looked_up.kind).into_iter();
        let ids: Vec<ObjectId> = all
            .filter(|id| looked_up.name.is_empty() || id.name == looked_up.name)
            .filter(|id| looked_up.namespace.is_empty() || id.namespace == looked_up.namespace)
            .filter(|id| id.cluster == looked_up.cluster)
            .collect();
        let is_data = looked_up.is("", "ConfigMap") || looked_up.is("", "Secret");
        let part = if is_data { Part::Data(None) } else { Part::SpecAndLabels };
        for id in ids {
            if self.changes_earlier(comparison, &id, found)
                || comparison.difference_by_others(&id, part, &self.id)?.is_some()
            {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// Returns true if an upgrade before the last one may create, change or delete an object that a template looks up.
    fn changes_earlier(&self, comparison: &Comparison<'_, '_, '_>, id: &ObjectId, found: &Value) -> bool {
        let state = comparison.state();
        let own = state.owner_applies().filter(|(release, _)| **release == self.id);
        own.flat_map(|(_, applies)| &applies.earlier).any(|objects| match objects.get(id) {
            Some(built) => !state.is_live(id) || built.manifest.get("data") != found.get("data"),
            None => self.holds(comparison, id),
        })
    }

    /// Returns true if the answer to a lookup holds values of Secrets, or can: that of an object that an owner made of
    /// some does.
    pub(crate) fn finds_secrets(&self, state: &State<'_>, query: &ObjectQuery, found: &Value) -> bool {
        // A Secret that does not exist has no values.
        if query.is_of_secrets() {
            return found.as_object().is_none_or(|found| !found.is_empty());
        }
        let kind = query.group_kind();
        let objects = if query.name.is_empty() { list_at(found, "/items") } else { std::slice::from_ref(found) };
        let mut ids = objects.iter().map(|object| {
            let [namespace, name] = ["/metadata/namespace", "/metadata/name"].map(|pointer| text_at(object, pointer));
            ObjectId::new(&kind.group, &kind.kind, namespace, name).in_cluster(self.cluster.as_ref())
        });
        ids.any(|id| state.live_may_hold_secrets(&id)) || state.secrets.are_in(found)
    }

    /// Returns what a template may know of an answer with values of Secrets while it says what else it looks up: the
    /// object, and the keys of a Secret.
    pub(super) fn without_values(query: &ObjectQuery, found: &Value) -> Value {
        let ObjectQuery { api_version, kind, namespace, name } = query;
        let metadata = json!({"namespace": namespace, "name": name});
        let data = found.get("data").and_then(Value::as_object).filter(|_| query.is_of_secrets());
        let data: Map<String, Value> =
            data.into_iter().flat_map(Map::keys).map(|key| (key.clone(), json!(""))).collect();
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "data": data})
    }

    /// Returns true if a Secret does not exist, or is in the inventory of the release. A list of Secrets is not read.
    fn may_read(&self, comparison: &Comparison<'_, '_, '_>, id: &ObjectId) -> bool {
        !id.name.is_empty() && (self.holds(comparison, id) || !comparison.state().is_live(id))
    }

    /// Returns true if an object is in the inventory of the release.
    fn holds(&self, comparison: &Comparison<'_, '_, '_>, id: &ObjectId) -> bool {
        let state = comparison.state();
        match state.input.snapshot.resource(&self.id).map(|live| state.members(live)) {
            Some(Members::Listed(members)) => members.contains(id),
            _ => false,
        }
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
