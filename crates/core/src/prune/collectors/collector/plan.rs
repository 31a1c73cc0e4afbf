use crate::kubernetes::object::ObjectId;
use crate::plan::Plan;

/// Plan of a request for one snapshot.
#[derive(Clone, Debug)]
pub struct CollectorPlan {
    pub plan: Plan,
    /// Deletions in the system's order. Those of one wave may be deleted at the same time.
    pub waves: Vec<Vec<ObjectId>>,
    /// Number of objects of the set that the manifests contain.
    pub retained: usize,
    /// Description of a changed source of fluxd. The plan then shows what fluxd will do; this tool deletes nothing.
    pub source_change: Option<String>,
    /// Warnings, which hold text written by others.
    pub warnings: Vec<String>,
}

impl From<Plan> for CollectorPlan {
    fn from(plan: Plan) -> Self {
        Self { plan, waves: vec![], retained: 0, source_change: None, warnings: vec![] }
    }
}
