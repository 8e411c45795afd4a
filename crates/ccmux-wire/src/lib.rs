//! ccmux-wire.
