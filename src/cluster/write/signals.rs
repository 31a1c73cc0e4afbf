//! Signals that ask the program to end: Ctrl-C, and on Unix SIGTERM and SIGHUP too.

/// Waits for signals from its creation on. They do not end the process any more.
pub(crate) struct Interrupts {
    #[cfg(unix)]
    streams: Vec<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Interrupts {
    pub(crate) fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        Self { streams: kinds.into_iter().filter_map(|kind| signal(kind).ok()).collect() }
    }

    /// Returns after the next signal.
    pub(crate) async fn next(&mut self) {
        let signals: Vec<_> = self.streams.iter_mut().map(|stream| Box::pin(stream.recv())).collect();
        futures::future::select_all(signals).await;
    }
}

#[cfg(not(unix))]
impl Interrupts {
    pub(crate) fn new() -> Self {
        Self {}
    }

    /// Returns after the next Ctrl-C.
    pub(crate) async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}
