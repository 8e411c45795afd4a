//! Bytes from a FIFO → frames → messages.
