//! tmux
