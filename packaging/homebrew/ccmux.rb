# Filled in by `cargo xtask dist`: {{version}}, {{url}}, {{sha256}} of the source archive.
class Ccmux < Formula
  desc "Keeps Claude Code running in tmux and gives it Unix doors"
  homepage "{{homepage}}"
  url "{{url}}"
  sha256 "{{sha256}}"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build
  depends_on "tmux"

  def install
    %w[ccmuxd ccmux-cli ccmux-hook ccmux-demo].each do |crate|
      system "cargo", "install", *std_cargo_args(path: "crates/#{crate}")
    end
    generate_completions_from_executable(bin/"ccmux", "completions")
    system bin/"ccmux", "manual", man1
    doc.install "README.md", "docs", "config"
  end

  service do
    run [opt_bin/"ccmuxd"]
    environment_variables PATH: std_service_path_env
    keep_alive successful_exit: false
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/ccmux --version")
    assert_path_exists bin/"ccmux-hook"
    system bin/"ccmuxd", "--check-config"
  end
end
