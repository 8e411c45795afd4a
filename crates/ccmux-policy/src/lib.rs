//! ccmux-policy.
