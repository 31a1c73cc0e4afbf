//! Kinds of actions of helm-controller, with the words and the fields that belong to each.

use crate::helm::hooks::HookEvent;
use crate::plan::ReasonCode;

/// The action of helm-controller for a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActionKind {
    Install,
    Upgrade,
}

impl ActionKind {
    /// Returns the word for people.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Install => "installation",
            Self::Upgrade => "upgrade",
        }
    }

    /// Returns the field of the spec with the options of the action.
    pub(crate) fn field(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Upgrade => "upgrade",
        }
    }

    /// Returns the events that run hooks before and after the action.
    pub(crate) fn events(self) -> [HookEvent; 2] {
        match self {
            Self::Install => [HookEvent::PreInstall, HookEvent::PostInstall],
            Self::Upgrade => [HookEvent::PreUpgrade, HookEvent::PostUpgrade],
        }
    }

    /// Returns the code for the outcome of the owner.
    pub(crate) fn code(self) -> ReasonCode {
        match self {
            Self::Install => ReasonCode::ReleaseInstalled,
            Self::Upgrade => ReasonCode::ReleaseUpgraded,
        }
    }
}
