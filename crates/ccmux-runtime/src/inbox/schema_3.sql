-- Schema 3 of inbox.db: codes that asks are answered by, and lines that are answers. Times are Unix milliseconds.

CREATE TABLE codes (
    code      TEXT    PRIMARY KEY,
    issued_at INTEGER NOT NULL,
    closed_at INTEGER              -- forgotten a day later
) STRICT;

CREATE TABLE answers (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    channel TEXT    NOT NULL,
    sender  TEXT,                  -- meta.sender
    line    TEXT    NOT NULL,      -- sanitised
    at      INTEGER NOT NULL
) STRICT;
