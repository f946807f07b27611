//! Each function's `bootstrap` alone, under AWS's Lambda runtime interface emulator: every shape of event that it takes,
//! and those of infra/events/ as they are. They talk to the stores of the stack that `infra/cloud/run` has deployed, with the variables that
//! their functions were deployed with, and to a queue of each test's own, which no function reads.

mod emulated;
mod events;
mod streaming;
mod tokens;
