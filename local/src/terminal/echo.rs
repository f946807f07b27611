//! The terminal while an answer is made: [`EchoOff`] turns its echo off, [`CtrlC`] lets the person stop the answer.
//! Echoed input would appear inside the answer, and would move the cursor, by which a spinner is erased. The input stays in the
//! terminal until the next prompt shows it.

#[cfg(unix)]
use std::io::{Write, stdout};

/// Control sequence after which the terminal marks pasted text, so that the next prompt reads it as one input. The editor
/// writes it too, while it reads.
#[cfg(unix)]
const MARK_PASTES: &[u8] = b"\x1b[?2004h";
#[cfg(unix)]
const STOP_MARKING: &[u8] = b"\x1b[?2004l";

/// Keeps the terminal from echoing until it is dropped. Ctrl-C still works. If the process is killed, the terminal stays without
/// an echo, which shells turn on again.
pub(super) struct EchoOff {
    #[cfg(unix)]
    before: Option<nix::sys::termios::Termios>,
    #[cfg(unix)]
    marks_pastes: bool,
}

#[cfg(unix)]
impl EchoOff {
    /// Turns the echo off. Does nothing if standard input is not a terminal. `marks_pastes` if the terminal is not dumb.
    pub(super) fn begin(marks_pastes: bool) -> Self {
        use nix::sys::termios::{LocalFlags, SetArg, SpecialCharacterIndices, tcgetattr, tcsetattr};
        let stdin = std::io::stdin();
        let Ok(before) = tcgetattr(&stdin) else { return Self { before: None, marks_pastes: false } };
        let mut silent = before.clone();
        // Without line buffering, so that the prompt gets single keys and incomplete lines.
        silent.local_flags.remove(LocalFlags::ECHO | LocalFlags::ICANON);
        silent.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
        silent.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        let is_set = tcsetattr(&stdin, SetArg::TCSANOW, &silent).is_ok();
        let marks_pastes = is_set && marks_pastes;
        if marks_pastes {
            control(MARK_PASTES);
        }
        Self { before: is_set.then_some(before), marks_pastes }
    }

    /// Returns true if there is input that no prompt has read.
    pub(super) fn has_typed(&self) -> bool {
        use std::os::fd::AsFd;

        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let stdin = std::io::stdin();
        let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        self.before.is_some() && poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }
}

#[cfg(unix)]
impl Drop for EchoOff {
    fn drop(&mut self) {
        use nix::sys::termios::{SetArg, tcsetattr};
        if self.marks_pastes {
            control(STOP_MARKING);
        }
        if let Some(before) = &self.before {
            // `TCSANOW` keeps pending input. An error means that the terminal is gone.
            let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, before);
        }
    }
}

/// Writes a control sequence. An error means that the terminal is gone.
#[cfg(unix)]
fn control(sequence: &[u8]) {
    let mut out = stdout().lock();
    drop(out.write_all(sequence).and_then(|()| out.flush()));
}

#[cfg(not(unix))]
impl EchoOff {
    #[allow(clippy::missing_const_for_fn, reason = "it is not constant on Unix")]
    pub(super) fn begin(_: bool) -> Self {
        Self {}
    }

    #[allow(clippy::unused_self, reason = "it is used on Unix")]
    pub(super) fn has_typed(&self) -> bool {
        false
    }
}

/// Presses of Ctrl-C. None is lost between two calls of [`CtrlC::pressed`], unlike with `tokio::signal::ctrl_c`, which sees
/// only those that come while it is awaited.
pub(super) struct CtrlC {
    #[cfg(unix)]
    presses: tokio::signal::unix::Signal,
    #[cfg(not(unix))]
    presses: tokio::signal::windows::CtrlC,
}

impl CtrlC {
    /// Listens from now on, also after it is dropped: the process no longer ends by Ctrl-C.
    pub(super) fn listen() -> std::io::Result<Self> {
        #[cfg(unix)]
        let presses = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
        #[cfg(not(unix))]
        let presses = tokio::signal::windows::ctrl_c()?;
        Ok(Self { presses })
    }

    /// Waits until it has been pressed since the last call. Cancel-safe.
    pub(super) async fn pressed(&mut self) {
        // It ends only with the runtime.
        self.presses.recv().await;
    }

    /// Forgets a press that stopped nothing.
    pub(super) fn forget(&mut self) {
        use futures::FutureExt;
        let _ = self.pressed().now_or_never();
    }
}
