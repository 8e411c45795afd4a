-- Schema 2: when Enter was pressed and when the answer came, and what may be forgotten.

ALTER TABLE messages ADD COLUMN entered_at INTEGER;  -- Enter was last pressed for it
ALTER TABLE messages ADD COLUMN answered_at INTEGER; -- its turn was published
ALTER TABLE messages ADD COLUMN seen_at INTEGER;     -- somebody was shown that it is uncertain

CREATE INDEX messages_over ON messages (accepted_at)
    WHERE state IN ('delivered', 'answered', 'uncertain', 'failed', 'expired');
