//! Lookups of the templates of a chart in the cluster of its release.
//!
//! Source: Helm v4.2.2 `pkg/engine/lookup_func.go`. The rights are those of the account of the release. A Secret is read only
//! if it is one of the release: a tree must not choose which Secrets are read.

use serde_json::{Value, json};

use super::rendering::Place;
use crate::flux::apply::question::{Question, Request};
use crate::flux::build::Interrupt;
use crate::flux::build::charts::ChartRun;
use crate::flux::build::objects::query::{ClusterQuery, ObjectQuery, QueryAnswer};
use crate::flux::simulation::model::questions::Verdict;
use crate::flux::simulation::model::state::State;
use crate::flux::simulation::owners::behaviour::comparison::{Asked, Comparison, Part};
use crate::kubernetes::object::{ObjectId, list_at, text_at};
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

    /// Returns an object of a lookup that the change creates, changes or deletes before the release is upgraded for the last time.
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

    /// Returns true if the answer to a lookup holds values of Secrets, or can: that of an object that an owner made of some does.
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

    /// Returns true if the words of a lookup tell nothing: they name what is there, or are words of the chart. A template can compute them of
    /// values of Secrets, and they are a part of messages and of addresses.
    pub(crate) fn is_open_lookup(&self, state: &State<'_>, query: &ObjectQuery, run: &ChartRun) -> bool {
        let (kind, (_, version)) = (query.group_kind(), query.group_and_version());
        let Some(served) = self.snapshot.resource_type(&kind) else { return false };
        if *served.version != *version && self.snapshot.serves(&kind, version) != Some(true) {
            return false;
        }
        let known = ["", &*self.target.name, &*self.target.namespace];
        state.is_live(&query.id(served.namespaced).in_cluster(self.cluster.as_ref()))
            || [&*query.namespace, &*query.name].into_iter().all(|word| known.contains(&word) || is_in_chart(run, word))
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

/// Returns true if a file of a chart has a word in quotes.
fn is_in_chart(run: &ChartRun, word: &str) -> bool {
    let quoted = format!("\"{word}\"");
    run.files.values().any(|content| String::from_utf8_lossy(content).contains(&quoted))
}

/// Returns the object of a lookup for people.
fn described(id: &ObjectId) -> String {
    match (&*id.name, &*id.namespace) {
        ("", "") => format!("all of {}", id.group_kind()),
        ("", namespace) => format!("all of {} -n {namespace}", id.group_kind()),
        _ => id.to_string(),
    }
}
