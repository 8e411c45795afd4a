-- Schema 1 of inbox.db. Times are Unix milliseconds.

CREATE TABLE batches (
    id                INTEGER PRIMARY KEY,
    state             TEXT    NOT NULL, -- in_flight, delivered, uncertain, requeued
    transcript_path   TEXT,             -- where to look for it,
    transcript_offset INTEGER NOT NULL, -- behind this byte
    agent_pid         INTEGER,
    began_at          INTEGER NOT NULL, -- recorded, before the paste
    pasted_at         INTEGER,          -- typed, or maybe typed
    ended_at          INTEGER,
    proof             TEXT,             -- hook, transcript
    prompt_id         TEXT,
    reason            TEXT,
    text              TEXT    NOT NULL  -- as pasted; empty once it is delivered or requeued
) STRICT;

CREATE INDEX batches_in_flight ON batches (id) WHERE state = 'in_flight';

CREATE TABLE messages (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    channel      TEXT    NOT NULL,
    shown        TEXT    NOT NULL, -- the channel as Claude is shown it
    sender_id    TEXT,             -- the sender's; without one the id is m-<row>
    content      TEXT    NOT NULL, -- sanitised
    meta         TEXT,             -- a JSON object
    ts           INTEGER NOT NULL, -- when it was sent
    bytes        INTEGER NOT NULL, -- what it takes in a prompt
    rows         INTEGER NOT NULL,
    state        TEXT    NOT NULL, -- accepted, in_flight, delivered, answered, uncertain, failed, expired
    redelivered  INTEGER NOT NULL DEFAULT 0,
    failures     INTEGER NOT NULL DEFAULT 0,
    batch        INTEGER REFERENCES batches (id),
    proof        TEXT,             -- hook, transcript
    prompt_id    TEXT,
    accepted_at  INTEGER NOT NULL,
    injected_at  INTEGER,
    delivered_at INTEGER,
    reason       TEXT,
    turn_seq     INTEGER
) STRICT;

CREATE UNIQUE INDEX messages_by_sender_id ON messages (channel, sender_id) WHERE sender_id IS NOT NULL;
CREATE INDEX messages_queued ON messages (id) WHERE state IN ('accepted', 'in_flight');
CREATE INDEX messages_by_batch ON messages (batch) WHERE batch IS NOT NULL;

CREATE TABLE intake (
    channel    TEXT    PRIMARY KEY,
    cursor     INTEGER NOT NULL,          -- offset of the first byte that is not yet part of a message
    partial    BLOB    NOT NULL,          -- the bytes from there on that were received
    skip_until TEXT,                      -- newline, nul: an over-long line is being skipped
    skipped    INTEGER NOT NULL DEFAULT 0 -- bytes of it so far
) STRICT;
