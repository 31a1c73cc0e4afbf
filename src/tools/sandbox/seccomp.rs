//! Restricts this process with seccomp: system calls that Landlock does not cover on every kernel.
//!
//! Landlock has no rule for UDP and other sockets, for the mode, owner and times of files, and for new processes. A network
//! namespace would cover the first, but containers and many distributions do not let users create one.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

use super::{Network, Rules};

/// Calls that no child needs: they reach other processes, namespaces, mounts and the kernel, or leave the process group.
/// io_uring would open sockets without the calls that a filter sees.
const NEVER: &[c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_setpgid,
    libc::SYS_setsid,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// `fchmodat2` has this number on every architecture. The crate libc does not name it on all of them.
const FCHMODAT2: c_long = 452;

/// Calls that change files without opening them. Landlock covers only some of them, and only on newer kernels.
const CHANGE_FILES: &[c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fremovexattr,
    libc::SYS_fsetxattr,
    libc::SYS_lremovexattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_setxattr,
    libc::SYS_truncate,
    libc::SYS_utimensat,
];

/// The same calls as older programs make them.
#[cfg(target_arch = "x86_64")]
const CHANGE_FILES_LEGACY: &[c_long] =
    &[libc::SYS_chmod, libc::SYS_chown, libc::SYS_futimesat, libc::SYS_lchown, libc::SYS_utime, libc::SYS_utimes];
#[cfg(not(target_arch = "x86_64"))]
const CHANGE_FILES_LEGACY: &[c_long] = &[];

#[cfg(target_arch = "x86_64")]
const FORK: &[c_long] = &[libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const FORK: &[c_long] = &[];

/// Calls that send signals.
const SIGNALS: &[c_long] = &[
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_tkill,
];

/// Flags of `clone` that create namespaces.
const NAMESPACES: u64 = (libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWUTS) as u64;

type Filtered = BTreeMap<i64, Vec<SeccompRule>>;

/// Restricts this process and its children permanently.
pub(super) fn restrict(rules: &Rules) -> Result<(), Error> {
    // The arguments of clone3 are in memory, which a filter cannot read. Without it, programs use clone.
    let not_implemented = [(libc::SYS_clone3, vec![])].into();
    apply_filter(&compile(not_implemented, libc::ENOSYS)?)?;
    apply_filter(&compile(refused(rules)?, libc::EPERM)?)
}

fn refused(rules: &Rules) -> Result<Filtered, BackendError> {
    let mut always = vec![NEVER];
    if rules.network == Network::None {
        always.push(&[libc::SYS_socket]);
    }
    if rules.write.is_empty() {
        always.extend([CHANGE_FILES, CHANGE_FILES_LEGACY]);
    }
    if !rules.processes {
        always.extend([FORK, SIGNALS]);
    }
    let mut refused: Filtered = always.into_iter().flatten().map(|call| (*call, vec![])).collect();
    if !rules.processes {
        let to_others = argument(0, SeccompCmpOp::Ne, u64::from(std::process::id()))?;
        refused.insert(libc::SYS_kill, vec![to_others.clone()]);
        refused.insert(libc::SYS_tgkill, vec![to_others]);
    }
    let mut clone = any_flag(NAMESPACES)?;
    if !rules.processes {
        clone.push(argument(0, SeccompCmpOp::MaskedEq(libc::CLONE_THREAD as u64), 0)?);
    }
    refused.insert(libc::SYS_clone, clone);
    refused.insert(libc::SYS_prlimit64, vec![argument(0, SeccompCmpOp::Ne, 0)?]);
    Ok(refused)
}

/// Returns rules that match if an argument has at least one of these flags.
fn any_flag(flags: u64) -> Result<Vec<SeccompRule>, BackendError> {
    let each = (0..u64::BITS).map(|bit| 1 << bit).filter(|flag| flags & flag != 0);
    each.map(|flag| argument(0, SeccompCmpOp::MaskedEq(flag), flag)).collect()
}

fn argument(index: u8, comparison: SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(index, SeccompCmpArgLen::Dword, comparison, value)?])
}

fn compile(mut calls: Filtered, error: i32) -> Result<BpfProgram, BackendError> {
    // x32 programs make the same calls with this bit.
    if cfg!(target_arch = "x86_64") {
        const X32: i64 = 0x4000_0000;
        let x32: Filtered = calls.iter().map(|(call, rules)| (call | X32, rules.clone())).collect();
        calls.extend(x32);
    }
    let refuse = SeccompAction::Errno(error as u32);
    SeccompFilter::new(calls, SeccompAction::Allow, refuse, std::env::consts::ARCH.try_into()?)?.try_into()
}
