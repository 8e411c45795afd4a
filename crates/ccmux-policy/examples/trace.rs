//! Prints a timeline with what the policy orders: `cargo run -p ccmux-policy --example trace -- FILE`.

fn main() {
    for file in std::env::args().skip(1) {
        // An example may read files: it is no part of the crate.
        #[allow(clippy::disallowed_methods)]
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        match ccmux_policy::timeline::trace(&text) {
            Ok(trace) => print!("{trace}"),
            Err(error) => eprintln!("{file}: {error}"),
        }
    }
}
