//! What is typed while an answer is made. It would be echoed into the middle of it, and moves the cursor, by which a spinner
//! is taken back; so it is not echoed. It waits in the terminal until the next prompt shows it.

/// Keeps the terminal from echoing for as long as this lives. Ctrl-C comes all the same. Whoever is killed meanwhile leaves
/// the terminal as an editor of lines does; shells set theirs anew.
pub(super) struct Hush {
    #[cfg(unix)]
    before: Option<nix::sys::termios::Termios>,
}

#[cfg(unix)]
impl Hush {
    /// From now on. Does nothing where nobody types.
    pub(super) fn begin() -> Self {
        use nix::sys::termios::{LocalFlags, SetArg, SpecialCharacterIndices, tcgetattr, tcsetattr};
        let stdin = std::io::stdin();
        let Ok(before) = tcgetattr(&stdin) else { return Self { before: None } };
        let mut hushed = before.clone();
        // Letter by letter, so that the prompt gets keys as they were pressed, and a line that was only begun too.
        hushed.local_flags.remove(LocalFlags::ECHO | LocalFlags::ICANON);
        hushed.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
        hushed.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        let is_set = tcsetattr(&stdin, SetArg::TCSANOW, &hushed).is_ok();
        Self { before: is_set.then_some(before) }
    }

    /// Whether something was typed that no prompt has taken.
    pub(super) fn has_typed(&self) -> bool {
        use std::os::fd::AsFd;

        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let stdin = std::io::stdin();
        let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        self.before.is_some() && poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }
}

#[cfg(unix)]
impl Drop for Hush {
    fn drop(&mut self) {
        use nix::sys::termios::{SetArg, tcsetattr};
        if let Some(before) = &self.before {
            // At once, and without dropping what was typed. The terminal may be gone.
            let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, before);
        }
    }
}

#[cfg(not(unix))]
impl Hush {
    #[allow(clippy::missing_const_for_fn, reason = "it is none on Unix")]
    pub(super) fn begin() -> Self {
        Self {}
    }

    #[allow(clippy::unused_self, reason = "it is used on Unix")]
    pub(super) fn has_typed(&self) -> bool {
        false
    }
}
