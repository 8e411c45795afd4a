//! ccmux-runtime.
