//! Order of the work of one wave of deletions, as a state machine without I/O.
//!
//! Each step is looked at, then judged with a reading of the owners that began after that, then sent. An API server makes
//! readings of the owners wait for each other, up to 0.1 s (docs/benchmarks.md), so one reading serves a group of steps
//! for a short time. Steps are sent in their order. A step whose cascade has to be listed is looked at only when its turn
//! has come: no other deletion may come between.

use std::time::Duration;

use tokio::time::Instant;

/// Age of a reading of the cluster after which nothing is started without a new one.
const MAX_AGE: Duration = Duration::from_secs(30);
/// Maximum number of steps that share a reading of the owners, and time in which more of them join than run at once.
const GROUP: usize = 32;
const GATHERING: Duration = Duration::from_millis(50);

/// Next thing to do. Steps are numbered by their position in the wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Read the whole cluster.
    ReadCluster,
    /// Read the content of a step's cascade, and its object.
    Look(usize),
    /// Read the owners, for all steps that were looked at.
    ReadOwners,
    /// Judge a step, and delete its object.
    Delete {
        step: usize,
        /// Another object was deleted after the reading of the owners: read the claimed owner once more.
        confirm: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Due,
    Looking,
    Looked,
    /// The owners are being read for it.
    Covered,
    Judgeable,
    Running,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClusterReading {
    None,
    Running,
    At(Instant),
}

/// The steps of one wave, and the readings that they depend on.
#[derive(Debug)]
pub(super) struct Schedule {
    steps: Vec<State>,
    /// Steps whose cascade is listed again.
    careful: Vec<bool>,
    /// Maximum number of steps that send requests at the same time.
    parallel: usize,
    /// Time after a reading of the owners in which it serves.
    owners_age: Duration,
    cluster: ClusterReading,
    owners_read: Option<Instant>,
    /// No object was deleted since the owners were read.
    is_last_word: bool,
    gathering_since: Option<Instant>,
    is_ending: bool,
}

impl Schedule {
    pub(super) fn new(steps: usize, parallel: usize, owners_age: Duration) -> Self {
        Self {
            steps: vec![State::Due; steps],
            careful: vec![false; steps],
            parallel,
            owners_age,
            cluster: ClusterReading::None,
            owners_read: None,
            is_last_word: false,
            gathering_since: None,
            is_ending: false,
        }
    }

    /// Returns what to start now, or `None` until the next event. Call it until it returns `None`.
    pub(super) fn next(&mut self, now: Instant) -> Option<Action> {
        if self.is_ending || self.is_done() {
            return None;
        }
        match self.cluster {
            ClusterReading::Running => return None,
            ClusterReading::At(at) if now - at <= MAX_AGE => {}
            ClusterReading::None | ClusterReading::At(_) => return self.read_cluster(),
        }
        if self.owners_read.is_some_and(|at| now - at > self.owners_age) {
            self.replace(State::Judgeable, State::Due);
        }
        let head = self.steps.iter().position(|state| !matches!(state, State::Running | State::Ended))?;
        if self.steps[head] == State::Judgeable {
            return self.delete(head);
        }
        if self.count(State::Covered) > 0 {
            return None;
        }
        self.look(now).or_else(|| self.read_owners())
    }

    /// Waits until nothing runs, then reads the cluster. What was read before counts no more.
    fn read_cluster(&mut self) -> Option<Action> {
        if [State::Looking, State::Covered, State::Running].iter().any(|state| self.count(*state) > 0) {
            return None;
        }
        self.replace(State::Looked, State::Due);
        self.replace(State::Judgeable, State::Due);
        self.cluster = ClusterReading::Running;
        Some(Action::ReadCluster)
    }

    fn delete(&mut self, step: usize) -> Option<Action> {
        if !self.has_free_slot() {
            return None;
        }
        self.steps[step] = State::Running;
        Some(Action::Delete { step, confirm: !self.is_last_word })
    }

    /// Starts to look at the next step that is due, if it may join the group.
    fn look(&mut self, now: Instant) -> Option<Action> {
        let step = self.steps.iter().position(|state| *state == State::Due)?;
        let group = self.count(State::Looking) + self.count(State::Looked);
        let is_full = if self.careful[step] || self.has_careful_in_group() {
            group + self.count(State::Running) >= self.parallel
        } else {
            let is_late = self.gathering_since.is_some_and(|since| now - since > GATHERING);
            group >= self.parallel && (is_late || group >= GROUP)
        };
        if is_full || !self.has_free_slot() {
            return None;
        }
        if group == 0 {
            self.gathering_since = Some(now);
        }
        self.steps[step] = State::Looking;
        Some(Action::Look(step))
    }

    fn read_owners(&mut self) -> Option<Action> {
        if self.count(State::Looking) > 0 || self.count(State::Looked) == 0 {
            return None;
        }
        self.replace(State::Looked, State::Covered);
        self.replace(State::Judgeable, State::Covered);
        Some(Action::ReadOwners)
    }

    /// Records the end of a reading of the cluster. `careful` says which steps have a cascade to list again.
    pub(super) fn cluster_read(&mut self, now: Instant, careful: Vec<bool>) {
        self.cluster = ClusterReading::At(now);
        self.careful = careful;
    }

    pub(super) fn looked(&mut self, step: usize) {
        self.steps[step] = State::Looked;
    }

    /// Records the end of a reading of the owners.
    pub(super) fn owners_read(&mut self, now: Instant) {
        self.owners_read = Some(now);
        self.is_last_word = true;
        self.replace(State::Covered, State::Judgeable);
    }

    /// Records that the owner of a step changed after the owners were read: they are read again for all steps.
    pub(super) fn owner_changed(&mut self, step: usize) {
        self.steps[step] = State::Looked;
        self.replace(State::Judgeable, State::Looked);
    }

    /// Records that a step has to be looked at again.
    pub(super) fn retry(&mut self, step: usize) {
        self.steps[step] = State::Due;
    }

    /// Records the end of a step: its object was deleted or kept.
    pub(super) fn ended(&mut self, step: usize) {
        self.is_last_word &= self.steps[step] != State::Running;
        self.steps[step] = State::Ended;
    }

    /// Ends the wave: nothing more is started.
    pub(super) fn end(&mut self) {
        self.is_ending = true;
    }

    pub(super) fn is_careful(&self, step: usize) -> bool {
        self.careful[step]
    }

    pub(super) fn is_done(&self) -> bool {
        self.count(State::Ended) == self.steps.len()
    }

    /// Returns true if a deletion is running.
    pub(super) fn is_running(&self) -> bool {
        self.count(State::Running) > 0
    }

    /// Returns the steps that have not ended, true for those that are running.
    pub(super) fn left(&self) -> Vec<(usize, bool)> {
        let left = self.steps.iter().enumerate().filter(|(_, state)| **state != State::Ended);
        left.map(|(step, state)| (step, *state == State::Running)).collect()
    }

    fn count(&self, state: State) -> usize {
        self.steps.iter().filter(|own| **own == state).count()
    }

    fn has_free_slot(&self) -> bool {
        self.count(State::Looking) + self.count(State::Running) < self.parallel
    }

    fn has_careful_in_group(&self) -> bool {
        let in_group = self.steps.iter().map(|state| matches!(state, State::Looking | State::Looked));
        in_group.zip(&self.careful).any(|(in_group, careful)| in_group && *careful)
    }

    fn replace(&mut self, old: State, new: State) {
        self.steps.iter_mut().filter(|state| **state == old).for_each(|state| *state = new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::write::observer::OWNERS_AGE;

    /// A schedule with a clock of its own.
    struct Clock {
        schedule: Schedule,
        now: Instant,
    }

    impl Clock {
        /// Returns a wave whose cluster was read. `careful` has one letter per step, `c` for a careful one.
        fn new(careful: &str, parallel: usize) -> Self {
            let mut schedule = Schedule::new(careful.len(), parallel, OWNERS_AGE);
            let now = Instant::now();
            assert_eq!(schedule.next(now), Some(Action::ReadCluster));
            assert_eq!(schedule.next(now), None, "nothing runs while the cluster is read");
            schedule.cluster_read(now, careful.chars().map(|letter| letter == 'c').collect());
            Self { schedule, now }
        }

        fn wait(&mut self, milliseconds: u64) {
            self.now += Duration::from_millis(milliseconds);
        }

        /// Returns what is started now.
        fn started(&mut self) -> String {
            let actions = std::iter::from_fn(|| self.schedule.next(self.now));
            let words = actions.map(|action| match action {
                Action::ReadCluster => "cluster".to_owned(),
                Action::Look(step) => format!("look {step}"),
                Action::ReadOwners => "owners".to_owned(),
                Action::Delete { step, confirm: false } => format!("delete {step}"),
                Action::Delete { step, confirm: true } => format!("confirm {step}"),
            });
            words.collect::<Vec<_>>().join(", ")
        }

        /// Returns what is started after a look has ended.
        fn after_look(&mut self, step: usize) -> String {
            self.schedule.looked(step);
            self.started()
        }

        fn after_owners(&mut self) -> String {
            self.schedule.owners_read(self.now);
            self.started()
        }

        fn after_end(&mut self, step: usize) -> String {
            self.schedule.ended(step);
            self.started()
        }
    }

    #[test]
    fn one_reading_of_the_owners_serves_steps_that_are_sent_one_after_another() {
        let mut clock = Clock::new("---", 1);
        assert_eq!(clock.started(), "look 0");
        assert_eq!(clock.after_look(0), "look 1");
        assert_eq!(clock.after_look(1), "look 2");
        assert_eq!(clock.after_look(2), "owners");
        assert_eq!(clock.after_owners(), "delete 0");
        assert_eq!(clock.after_end(0), "confirm 1", "an owner may have changed since the deletion before");
        assert_eq!(clock.after_end(1), "confirm 2");
        assert_eq!(clock.after_end(2), "");
        assert!(clock.schedule.is_done());
    }

    #[test]
    fn a_step_that_was_kept_changes_nothing_for_the_next() {
        let mut clock = Clock::new("---", 1);
        clock.started();
        assert_eq!(clock.after_look(0), "look 1");
        assert_eq!(clock.after_end(1), "look 2", "kept before the owners were read");
        assert_eq!(clock.after_look(2), "owners");
        assert_eq!(clock.after_owners(), "delete 0");
        assert_eq!(clock.after_end(0), "confirm 2");
    }

    #[test]
    fn no_deletion_comes_between_a_careful_look_and_its_deletion() {
        let mut clock = Clock::new("-cc", 1);
        assert_eq!(clock.started(), "look 0");
        assert_eq!(clock.after_look(0), "owners", "the careful step waits for its turn");
        assert_eq!(clock.after_owners(), "delete 0");
        assert_eq!(clock.after_end(0), "look 1");
        assert_eq!(clock.after_look(1), "owners");
        assert_eq!(clock.after_owners(), "delete 1");
        assert_eq!(clock.after_end(1), "look 2");
        let mut clock = Clock::new("ccccc", 2);
        assert_eq!(clock.started(), "look 0, look 1");
        assert_eq!(clock.after_look(0), "");
        assert_eq!(clock.after_look(1), "owners");
        assert_eq!(clock.after_owners(), "delete 0, delete 1");
        assert_eq!(clock.after_end(0), "look 2");
    }

    #[test]
    fn a_slow_server_is_asked_for_no_more_than_runs_at_once() {
        let mut clock = Clock::new("-----", 2);
        assert_eq!(clock.started(), "look 0, look 1");
        clock.wait(100);
        assert_eq!(clock.after_look(1), "");
        assert_eq!(clock.after_look(0), "owners");
        assert_eq!(clock.after_owners(), "delete 0, delete 1");
        clock.wait(300);
        assert_eq!(clock.after_end(1), "look 2");
        assert_eq!(clock.after_look(2), "look 3", "a new group");
    }

    #[test]
    fn a_group_has_a_limit() {
        let mut clock = Clock::new(&"-".repeat(GROUP + 8), 8);
        clock.started();
        for step in 0..GROUP - 1 {
            clock.after_look(step);
        }
        assert_eq!(clock.after_look(GROUP - 1), "owners");
        assert_eq!(clock.schedule.count(State::Covered), GROUP);
    }

    #[test]
    fn a_reading_of_the_owners_serves_only_for_a_short_time() {
        let mut clock = Clock::new("---", 1);
        clock.started();
        (0..3).for_each(|step| drop(clock.after_look(step)));
        assert_eq!(clock.after_owners(), "delete 0");
        clock.wait(201);
        assert_eq!(clock.after_end(0), "look 1", "the object is read again before the owners");
        assert_eq!(clock.after_look(1), "look 2");
        assert_eq!(clock.after_look(2), "owners");
        assert_eq!(clock.after_owners(), "delete 1");
    }

    #[test]
    fn a_step_that_is_tried_again_goes_before_later_ones() {
        let mut clock = Clock::new("---", 1);
        clock.started();
        (0..3).for_each(|step| drop(clock.after_look(step)));
        assert_eq!(clock.after_owners(), "delete 0");
        clock.wait(100);
        clock.schedule.retry(0);
        assert_eq!(clock.started(), "look 0");
        assert_eq!(clock.after_look(0), "owners");
        assert_eq!(clock.after_owners(), "delete 0", "what it sent deleted nothing");
        assert_eq!(clock.after_end(0), "confirm 1");
    }

    #[test]
    fn an_owner_that_changed_makes_all_wait_for_a_reading() {
        let mut clock = Clock::new("---", 1);
        clock.started();
        (0..3).for_each(|step| drop(clock.after_look(step)));
        clock.after_owners();
        assert_eq!(clock.after_end(0), "confirm 1");
        clock.schedule.owner_changed(1);
        assert_eq!(clock.started(), "owners");
        assert_eq!(clock.after_owners(), "delete 1", "needs no confirmation, so steps always end");
    }

    #[test]
    fn an_old_reading_of_the_cluster_is_replaced_when_nothing_runs() {
        let mut clock = Clock::new("---", 2);
        assert_eq!(clock.started(), "look 0, look 1");
        assert_eq!(clock.after_look(0), "look 2");
        clock.wait(30_001);
        assert_eq!(clock.after_look(1), "");
        assert_eq!(clock.after_look(2), "cluster");
        clock.schedule.cluster_read(clock.now, vec![false; 3]);
        assert_eq!(clock.started(), "look 0, look 1", "everything is looked at again");
    }

    #[test]
    fn nothing_is_started_after_the_end() {
        let mut clock = Clock::new("-----", 2);
        clock.started();
        (0..5).for_each(|step| drop(clock.after_look(step)));
        assert_eq!(clock.after_owners(), "delete 0, delete 1");
        clock.schedule.end();
        assert_eq!(clock.after_end(0), "");
        assert_eq!(clock.schedule.left(), [(1, true), (2, false), (3, false), (4, false)]);
        assert!(clock.schedule.is_running());
        assert_eq!(clock.after_end(1), "");
        assert!(!clock.schedule.is_running() && !clock.schedule.is_done());
    }
}
