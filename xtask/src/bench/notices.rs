//! Rows 12 and 13: agents that wake another one, and notices over TCP.

use super::Bench;
use super::figure::Figure;

pub fn listener(_: &Bench) -> anyhow::Result<Vec<Figure>> {
    Ok(vec![Figure::missing("12 notify → listener awake", "`ccmux listen` is not there yet")])
}

pub fn tcp(_: &Bench) -> anyhow::Result<Vec<Figure>> {
    Ok(vec![Figure::missing("13 three-line TCP notice", "`tcp.listen` is not there yet")])
}
