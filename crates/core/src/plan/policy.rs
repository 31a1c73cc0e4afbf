//! Policies: rules in CEL that deny a plan. docs/policies.md describes the file and the variables.

use std::collections::BTreeMap;

use cel::{Context, Value as CelValue};
use chrono::{DateTime, SecondsFormat, Timelike, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Plan;
use crate::expression::{self, Expression, MAX_RULE_STEPS};
use crate::kubernetes::object::{KeyValues, ObjectMetadata};
use crate::kubernetes::snapshot::Snapshot;
use crate::yaml;

/// Rules that every plan must pass.
pub struct Policy {
    rules: Vec<(Rule, Expression)>,
}

/// Content of a file with rules.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile {
    rules: Vec<Rule>,
}

/// One rule, as its file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    name: String,
    /// Rows for each of which the expression is evaluated; once for the plan without it.
    each: Option<Rows>,
    /// Expression that is true for what is denied.
    deny: String,
    /// Reason for people.
    message: String,
}

impl Rule {
    fn denial(&self, subjects: Vec<String>) -> Denial {
        Denial { rule: self.name.clone(), message: self.message.clone(), subjects }
    }
}

/// Lists of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Rows {
    Changes,
    Owners,
}

impl Rows {
    /// Returns the name of the variable of one row.
    fn variable(self) -> &'static str {
        match self {
            Self::Changes => "change",
            Self::Owners => "owner",
        }
    }
}

/// A rule that denies a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    pub rule: String,
    pub message: String,
    /// Objects or owners that the rule denies; empty if it denies the plan as a whole.
    pub subjects: Vec<String>,
}

impl Policy {
    /// Reads the rules in a YAML file and compiles their expressions.
    ///
    /// # Errors
    /// If it is no YAML with a list `rules`, or an expression does not parse; the message names the rule.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: PolicyFile = yaml::only_document(text)?;
        if file.rules.is_empty() {
            return Err("it has no rules, so it would deny nothing".to_owned());
        }
        let rules = expression::with_stack(|| file.rules.into_iter().map(compile).collect::<Result<_, _>>())?;
        Ok(Self { rules })
    }

    /// Returns the rules that deny a plan. The snapshot has the labels of the objects.
    ///
    /// # Errors
    /// If a rule cannot be evaluated, or its result is no Boolean; the message names the rule and the row.
    pub fn check(&self, plan: &Plan, snapshot: &Snapshot, now: DateTime<Utc>) -> Result<Vec<Denial>, String> {
        expression::with_stack(|| {
            let variables = Variables::new(plan, snapshot, now)?;
            let denials = self.rules.iter().map(|(rule, expression)| variables.denial(rule, expression));
            denials.filter_map(Result::transpose).collect()
        })
    }
}

/// Parses the expression of a rule, and checks that its variables exist for the rows of the rule.
fn compile(rule: Rule) -> Result<(Rule, Expression), String> {
    check(&rule).map_err(|why| format!("rule {:?}: {why}", rule.name)).map(|expression| (rule, expression))
}

fn check(rule: &Rule) -> Result<Expression, String> {
    if rule.name.trim().is_empty() {
        return Err("the name is empty".to_owned());
    }
    if rule.message.trim().is_empty() {
        return Err("the message is empty: say why the plan is denied".to_owned());
    }
    let parsed = expression::parse(&rule.deny).map_err(|error| error.to_string())?;
    let absent = match rule.each {
        None => &[("change", "changes"), ("owner", "owners"), ("labels", "changes` or `each: owners")][..],
        Some(Rows::Changes) => &[("owner", "owners")],
        Some(Rows::Owners) => &[("change", "changes")],
    };
    for (variable, rows) in absent {
        if parsed.program().references().has_variable(variable) {
            return Err(format!(
                "`{variable}` exists only with `each: {rows}`; a variable of a macro needs another name"
            ));
        }
    }
    Ok(parsed)
}

/// Variables of the expressions.
struct Variables {
    shared: Context<'static, 'static>,
    /// Row, labels of its object, and its name in messages.
    changes: Vec<(CelValue, CelValue, String)>,
    owners: Vec<(CelValue, CelValue, String)>,
}

impl Variables {
    fn new(plan: &Plan, snapshot: &Snapshot, now: DateTime<Utc>) -> Result<Self, String> {
        let mut shared = expression::context();
        shared.add_variable_from_value("plan", to_value(plan)?);
        shared.add_variable_from_value("now", to_value(&time(now))?);
        let changes = plan.changes().iter().map(|row| {
            let id = &row.object.id;
            Ok((to_value(row)?, labels_of(snapshot.object(id))?, id.to_string()))
        });
        let owners = plan.owners().iter().map(|row| {
            let object = snapshot.objects.iter().find(|object| row.owner.is_object(&object.id));
            Ok((to_value(row)?, labels_of(object)?, row.owner.to_string()))
        });
        let (changes, owners) = (changes.collect::<Result<_, String>>()?, owners.collect::<Result<_, String>>()?);
        Ok(Self { shared, changes, owners })
    }

    /// Returns the denial of a rule; `None` if the plan passes. All rows together have the steps of one rule.
    fn denial(&self, rule: &Rule, expression: &Expression) -> Result<Option<Denial>, String> {
        let mut left = MAX_RULE_STEPS;
        let Some(each) = rule.each else {
            let is_denied =
                evaluate(expression, &self.shared, &mut left).map_err(|why| failed(rule, "the plan", &why))?;
            return Ok(is_denied.then(|| rule.denial(vec![])));
        };
        let rows = if each == Rows::Changes { &self.changes } else { &self.owners };
        let mut subjects = vec![];
        for (row, labels, name) in rows {
            let mut context = self.shared.new_inner_scope();
            context.add_variable_from_value(each.variable(), row.clone());
            context.add_variable_from_value("labels", labels.clone());
            if evaluate(expression, &context, &mut left).map_err(|why| failed(rule, name, &why))? {
                subjects.push(name.clone());
            }
        }
        Ok((!subjects.is_empty()).then(|| rule.denial(subjects)))
    }
}

fn labels_of(object: Option<&ObjectMetadata>) -> Result<CelValue, String> {
    object.map_or_else(|| to_value(&KeyValues::default()), |object| to_value(&object.labels))
}

fn failed(rule: &Rule, subject: &str, why: &str) -> String {
    format!("rule {:?} cannot be evaluated for {subject}: {why}", rule.name)
}

fn evaluate(expression: &Expression, context: &Context<'_, '_>, left: &mut u64) -> Result<bool, String> {
    match expression.evaluate(context, left) {
        Ok(CelValue::Bool(result)) => Ok(result),
        Ok(other) => Err(format!("its result is {}, not true or false", other.type_of())),
        Err(error) => Err(error.to_string()),
    }
}

fn to_value(value: &impl Serialize) -> Result<CelValue, String> {
    cel::to_value(value).map_err(|error| error.to_string())
}

/// Returns the variable `now`: the time, in UTC.
fn time(now: DateTime<Utc>) -> BTreeMap<&'static str, Value> {
    [
        ("time", json!(now.to_rfc3339_opts(SecondsFormat::Secs, true))),
        ("date", json!(now.format("%Y-%m-%d").to_string())),
        ("weekday", json!(now.format("%A").to_string())),
        ("hour", json!(now.hour())),
        ("minute", json!(now.minute())),
        ("unix", json!(now.timestamp())),
    ]
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::object::ObjectId;
    use crate::kubernetes::snapshot::ClusterIdentity;
    use crate::ownership::OwnerId;
    use crate::plan::{Action, Actor, Change, Outcome, OwnerOutcome, ReasonCode};
    use crate::testing::{Build, noon, object, snapshot};

    /// A plan that deletes a claim and a labelled Namespace, and updates a ConfigMap; an owner is blocked.
    fn example() -> (Plan, Snapshot) {
        let cluster = snapshot(
            vec![
                object("", "PersistentVolumeClaim", "shop", "data"),
                object("", "Namespace", "", "shop").label("team", "web"),
                object("", "ConfigMap", "shop", "cart"),
            ],
            vec![],
        );
        let mut plan = Plan::new(ClusterIdentity::default());
        let row = |action, kind: &str, namespace: &str, name: &str| {
            let id = ObjectId::new("", kind, namespace, name);
            let live = cluster.object(&id).unwrap();
            Change::new(action, live, None, Actor::KustomizeController, ReasonCode::NotInBuild)
        };
        plan.add_changes([
            row(Action::Delete, "PersistentVolumeClaim", "shop", "data"),
            row(Action::Delete, "Namespace", "", "shop"),
            row(Action::Update, "ConfigMap", "shop", "cart"),
        ]);
        let owner = OwnerId::new("flux", "Kustomization", "flux-system", "apps");
        plan.add_owners([OwnerOutcome::new(owner, Outcome::Blocked, ReasonCode::Suspended)]);
        (plan, cluster)
    }

    fn check(each: &str, deny: &str) -> Result<Vec<Vec<String>>, String> {
        let mut rule = json!({"name": "r", "deny": deny, "message": "no"}).as_object().unwrap().clone();
        if !each.is_empty() {
            rule.insert("each".to_owned(), each.into());
        }
        let policy = Policy::parse(&json!({"rules": [rule]}).to_string())?;
        let (plan, cluster) = example();
        let denials = policy.check(&plan, &cluster, noon())?;
        Ok(denials.into_iter().map(|denial| denial.subjects).collect())
    }

    #[test]
    fn rules_deny_rows_and_whole_plans() {
        let (claim, namespace) = ("persistentvolumeclaim/data -n shop", "namespace/shop");
        for (each, deny, expected) in [
            (
                "changes",
                "change.action == 'delete' && change.object.kind == 'PersistentVolumeClaim'",
                Some(vec![claim]),
            ),
            ("changes", "change.action == 'delete'", Some(vec![namespace, claim])),
            ("changes", "change.object.kind == 'Namespace' && !('team' in labels)", None),
            ("changes", "change.object.kind == 'Namespace' && labels['team'] == 'web'", Some(vec![namespace])),
            ("owners", "owner.outcome == 'blocked'", Some(vec!["kustomization/apps -n flux-system"])),
            ("", "plan.summary.delete > 1", Some(vec![])),
            ("", "plan.summary.delete > 2", None),
            ("", "!plan.complete", None),
            ("", "plan.changes.exists(c, c.object.name == 'cart' && c.action == 'update')", Some(vec![])),
            ("", "now.weekday == 'Friday' && now.hour == 12", Some(vec![])),
            ("", "now.weekday == 'Monday'", None),
        ] {
            let mut found: Option<Vec<String>> =
                check(each, deny).unwrap_or_else(|error| panic!("{deny}: {error}")).into_iter().next();
            found.iter_mut().for_each(|subjects| subjects.sort());
            let expected = expected.map(|subjects| subjects.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(found, expected, "{deny}");
        }
    }

    #[test]
    fn a_rule_that_loops_too_long_is_an_error() {
        let rows = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]";
        let opening: String = (0..7).map(|n| format!("{rows}.all(v{n}, ")).collect();
        let nested = format!("{opening}v0 > 0{}", ")".repeat(7));
        let error = check("changes", &format!("false || {nested}")).unwrap_err();
        assert!(error.contains("expression-steps in docs/limits.md"), "{error}");
    }

    #[test]
    fn what_does_not_parse_or_evaluate_is_an_error_and_passes_no_plan() {
        for (each, deny, expected) in [
            ("", "plan.summary.delete >", "rule \"r\": "),
            ("", "change.action == 'delete'", "`change` exists only with `each: changes`"),
            ("changes", "owner.outcome == 'blocked'", "`owner` exists only with `each: owners`"),
            ("", "labels['a'] == 'b'", "`labels` exists only with `each: changes` or `each: owners`"),
            ("", "(((".repeat(100).as_str(), "it has more than 4096 bytes, 64 brackets"),
            ("", "plan.nothing == 1", "rule \"r\" cannot be evaluated for the plan: "),
            ("", "plan.summary.delete", "its result is "),
            ("", "unknown(plan)", "rule \"r\" cannot be evaluated for the plan: "),
            ("changes", "change.owner.name == 'a'", "cannot be evaluated for "),
        ] {
            let error = check(each, deny).expect_err(deny);
            assert!(error.contains(expected), "{deny}: {error}");
        }
        for (text, expected) in [
            ("rules: []", "it has no rules"),
            ("rules: [{name: a, deny: 'true', message: ''}]", "the message is empty"),
            ("rules: [{name: ' ', deny: 'true', message: b}]", "the name is empty"),
            ("rules: [{name: a, deny: '', message: b}]", "rule \"a\": "),
            ("rules: [{name: a, deny: 'true'}]", "missing field `message`"),
            ("rules: [{name: a, deny: 'true', message: b, eech: changes}]", "unknown field `eech`"),
            ("rules: [{name: a, deny: 'true', message: b, each: rows}]", "unknown variant `rows`"),
            ("- a", "invalid type"),
        ] {
            let error = Policy::parse(text).err().unwrap_or_else(|| panic!("{text} parses"));
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
