//! Attempts to read, write, connect and signal.

use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::{Child, Folder, Sandbox, on, wait_for};

/// Runs a script that prints `done` if it succeeds, in the sandbox and without it.
async fn assert_refused(attempt: &str, script: &str) {
    let child = Child::script(&format!("({script}) && echo done"));
    let (inside, outside) = (child.text(&on()).await, child.text(&Sandbox::off()).await);
    assert!(outside.contains("done"), "{attempt}, without the sandbox: {outside}");
    assert!(!inside.contains("done"), "{attempt}, in the sandbox: {inside}");
}

#[tokio::test]
async fn files_outside_are_not_read() {
    let folder = Folder::outside_checkouts("sandbox-files");
    let marker = folder.write("marker", "text");
    std::os::unix::fs::symlink(&marker, folder.path().join("link")).unwrap();
    let at = folder.path().display();
    assert_refused("a file", &format!("cat {at}/marker")).await;
    assert_refused("a link", &format!("cat {at}/link")).await;
    assert_refused("a directory", &format!("ls {at}")).await;
    assert_refused("a copy of the file", &format!("ln {at}/marker {at}/hard")).await;
    assert_refused("the users of this machine", "cat /etc/passwd").await;
    assert_refused("the environment of the parent", "cat /proc/$PPID/environ").await;
    assert_refused("the memory of the parent", "head -c 1 /proc/$PPID/auxv").await;
}

#[tokio::test]
async fn files_outside_are_not_changed() {
    let folder = Folder::outside_checkouts("sandbox-files");
    let marker = folder.write("marker", "text");
    let at = folder.path().display();
    assert_refused("a new file", &format!("echo x > {at}/new")).await;
    assert_refused("more text", &format!("echo x >> {at}/marker")).await;
    assert_refused("a directory", &format!("mkdir {at}/directory")).await;
    assert_refused("a link", &format!("ln -s / {at}/symbolic")).await;
    assert_refused("the mode", &format!("chmod 600 {at}/marker")).await;
    assert_refused("the time", &format!("touch {at}/marker")).await;
    assert_refused("the name", &format!("mv {at}/marker {at}/renamed; mv {at}/renamed {at}/marker")).await;
    assert_refused("the home directory", "echo x > $HOME/file").await;
    assert_refused("the temporary directory", "echo x > $TMPDIR/file").await;
    std::fs::set_permissions(&marker, PermissionsExt::from_mode(0o644)).unwrap();
    let before = std::fs::metadata(&marker).unwrap().modified().unwrap();
    let script = format!("cd {at}; chmod 777 marker; touch marker; : > marker; rm -f marker; truncate -s 0 marker");
    Child::script(&script).text(&on()).await;
    let after = std::fs::metadata(&marker).unwrap();
    assert_eq!((after.modified().unwrap(), after.permissions().mode() & 0o777), (before, 0o644));
    assert_eq!(std::fs::read_to_string(&marker).unwrap(), "textx\n", "once, without the sandbox");
}

#[tokio::test]
async fn nothing_is_sent() {
    let (tcp, udp) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    tcp.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    let (to_tcp, to_udp) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    let script = format!(
        "bash -c 'echo x > /dev/tcp/127.0.0.1/{to_tcp}'; bash -c 'echo x > /dev/udp/127.0.0.1/{to_udp}'; echo ended"
    );
    let child = Child::script(&script);
    let silent = |tcp: &TcpListener, udp: &UdpSocket| {
        let connected = tcp.accept().map(|_| ()).map_err(|error| error.kind());
        let received = udp.recv(&mut [0; 8]).map(|_| ()).map_err(|error| error.kind());
        (connected, received)
    };
    assert!(child.text(&on()).await.contains("ended"));
    assert_eq!(silent(&tcp, &udp), (Err(ErrorKind::WouldBlock), Err(ErrorKind::WouldBlock)));
    child.text(&Sandbox::off()).await;
    assert_eq!(silent(&tcp, &udp), (Ok(()), Ok(())), "without the sandbox");
}

#[tokio::test]
async fn other_processes_get_no_signal() {
    for (sandbox, survives) in [(on(), true), (Sandbox::off(), false)] {
        let mut victim = Command::new("sleep").arg("600").spawn().unwrap();
        Child::script(&format!("kill -TERM {}", victim.id())).text(&sandbox).await;
        if survives {
            assert!(victim.try_wait().unwrap().is_none(), "the process got a signal");
            victim.kill().unwrap();
        }
        victim.wait().unwrap();
    }
}

/// Calls that reach other processes, namespaces, mounts or the kernel, or leave the process group. An argument of -1 is
/// valid for none of them, so a call that is not refused changes nothing.
const CALLS: [(&str, libc::c_long); 22] = [
    ("add_key", libc::SYS_add_key),
    ("bpf", libc::SYS_bpf),
    ("fsopen", libc::SYS_fsopen),
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("kcmp", libc::SYS_kcmp),
    ("keyctl", libc::SYS_keyctl),
    ("mount", libc::SYS_mount),
    ("move_mount", libc::SYS_move_mount),
    ("name_to_handle_at", libc::SYS_name_to_handle_at),
    ("open_by_handle_at", libc::SYS_open_by_handle_at),
    ("open_tree", libc::SYS_open_tree),
    ("perf_event_open", libc::SYS_perf_event_open),
    ("personality", libc::SYS_personality),
    ("pidfd_getfd", libc::SYS_pidfd_getfd),
    ("process_vm_readv", libc::SYS_process_vm_readv),
    ("process_vm_writev", libc::SYS_process_vm_writev),
    ("ptrace", libc::SYS_ptrace),
    ("setns", libc::SYS_setns),
    ("setpgid", libc::SYS_setpgid),
    ("umount2", libc::SYS_umount2),
    ("unshare", libc::SYS_unshare),
    ("userfaultfd", libc::SYS_userfaultfd),
];

/// The calls that a user without privileges may make, also in a container.
const UNPRIVILEGED: [&str; 3] = ["name_to_handle_at", "personality", "setpgid"];

#[tokio::test]
async fn calls_that_no_build_needs_are_refused() {
    let numbers: Vec<String> = CALLS.iter().map(|(name, number)| format!("('{name}', {number})")).collect();
    let program = format!(
        "import ctypes, errno\ncalls = ctypes.CDLL(None, use_errno=True)\nfor name, number in [{}]:\n    \
         result = calls.syscall(number, *[ctypes.c_long(-1)] * 6)\n    \
         print(name, result == -1 and ctypes.get_errno() == errno.EPERM)",
        numbers.join(", ")
    );
    let child = Child::script(&format!("python3 -I -S -c \"{program}\""));
    let refused = |text: &str| -> Vec<String> {
        text.lines().filter_map(|line| line.strip_suffix(" True")).map(str::to_owned).collect()
    };
    let inside = child.text(&on()).await;
    assert_eq!(refused(&inside), CALLS.map(|(name, _)| name), "{inside}");
    let outside = child.text(&Sandbox::off()).await;
    let refused = refused(&outside);
    assert_eq!(outside.lines().count(), CALLS.len(), "{outside}");
    assert!(!UNPRIVILEGED.iter().any(|name| refused.iter().any(|refused| refused == name)), "{outside}");
}

#[tokio::test]
async fn the_environment_has_only_empty_directories() {
    let text = Child::script("env | cut -d= -f1 | sort").text(&on()).await;
    let names: Vec<&str> = text.lines().filter(|name| !["_", "PWD", "SHLVL", "OLDPWD"].contains(name)).collect();
    let expected = "APPDATA HOME LOCALAPPDATA PATH TEMP TMP TMPDIR USERPROFILE XDG_CACHE_HOME XDG_CONFIG_HOME \
                    XDG_DATA_HOME XDG_RUNTIME_DIR XDG_STATE_HOME";
    assert_eq!(names.join(" "), expected);
    assert_eq!(Child::script("ls -A $HOME; ls -A; pwd -P | grep -c kubectl-gitops-").text(&on()).await, "1\n");
}

#[tokio::test]
async fn files_that_the_caller_has_open_are_closed() {
    let script = Child::script("(cat <&9) 2>/dev/null && echo inherited; true");
    let folder = Folder::outside_checkouts("sandbox-open-file");
    let marker = folder.write("marker", "text");
    // The shell gives descriptor 9 to this program, and that to its child.
    let rules = serde_json::to_string(&script.rules()).unwrap();
    let resources = serde_json::to_string(&super::limits().resources).unwrap();
    let program = script.program.file.display();
    let launch = format!("{{\"parent\":$$,\"name\":\"{program}\",\"rules\":{rules},\"resources\":{resources}}}");
    let launch = launch.replace('"', "\\\"");
    let line = format!(
        "exec 9< {}; {} __sandbox \"{launch}\" {program} && {program}",
        marker.display(),
        env!("CARGO_BIN_EXE_kubectl-gitops")
    );
    let output = Command::new("sh").args(["-c", &line]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // The second run is without the sandbox.
    assert_eq!(text, "textinherited\n", "{}", String::from_utf8_lossy(&output.stderr));
}

/// Attempts of a compiled program, which may not even start another one. Its working directory says where.
#[test]
#[ignore = "runs as the child of the next test"]
fn probe() {
    let at = std::fs::read_to_string("probe").unwrap();
    let (folder, port) = at.split_once('\n').unwrap();
    let (folder, marker) = (Path::new(folder), Path::new(folder).join("marker"));
    let attempts = [
        ("read", std::fs::read(&marker).is_ok()),
        ("write", std::fs::write(folder.join("new"), "x").is_ok()),
        ("mode", std::fs::set_permissions(&marker, PermissionsExt::from_mode(0o640)).is_ok()),
        ("connect", TcpStream::connect(format!("127.0.0.1:{port}")).is_ok()),
        ("socket", UdpSocket::bind("127.0.0.1:0").is_ok()),
        ("process", Command::new("/bin/true").status().is_ok()),
        ("itself", Command::new(std::env::current_exe().unwrap_or_default()).arg("--list").output().is_ok()),
        ("thread", std::thread::spawn(|| ()).join().is_ok()),
        ("working directory", std::fs::read("probe").is_ok()),
    ];
    let lines: String = attempts.iter().map(|(name, succeeds)| format!("{name}: {succeeds}\n")).collect();
    std::io::stdout().write_all(lines.as_bytes()).unwrap();
}

#[tokio::test]
async fn a_binary_starts_no_process() {
    let folder = Folder::outside_checkouts("sandbox-probe");
    folder.write("marker", "text");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut child = Child::new(std::env::current_exe().unwrap(), Folder::outside_checkouts("sandbox"));
    let probe = format!("{}\n{port}", folder.path().display());
    std::fs::write(child.directories.home().join("probe"), probe).unwrap();
    child.arguments = ["sandbox::attempts::probe", "--exact", "--ignored", "--nocapture"].map(str::to_owned).to_vec();
    let results = |text: String| {
        let lines = text.lines().filter_map(|line| line.split_once(": "));
        let named = lines.filter(|(_, succeeds)| ["true", "false"].contains(succeeds));
        named.map(|(name, succeeds)| format!("{name}: {succeeds}")).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(
        results(child.text(&on()).await),
        "read: false, write: false, mode: false, connect: false, socket: false, process: false, itself: false, \
         thread: true, working directory: true"
    );
    assert_eq!(
        results(child.text(&Sandbox::off()).await),
        "read: true, write: true, mode: true, connect: true, socket: true, process: true, itself: true, thread: true, \
         working directory: true"
    );
    wait_for("the connection of the second run", || listener.accept().is_ok());
}
