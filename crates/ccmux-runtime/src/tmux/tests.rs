//! The real tmux, on a server of its own for each test.
