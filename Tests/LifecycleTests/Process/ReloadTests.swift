import Testing

@testable import Lifecycle

@Suite("Reload state")
struct ReloadStateTests {
    @Test("a reload ends once: later reports change neither the count nor the outcome")
    func once() {
        var reload = ReloadState()
        let hasBegun = reload.begin { _ in }
        let ends = [
            reload.end(.failed("the gateway is stopping"), at: 7),
            // The loader had not finished then.
            reload.end(.failed("no such file"), at: 8), reload.end(.done(generation: 2), at: 9),
        ]
        #expect(hasBegun && ends.map { $0 != nil } == [true, false, false])
        #expect(reload.last?.outcome == .failed("the gateway is stopping") && reload.last?.at == 7)
        #expect((reload.succeeded, reload.failed) == (0, 1))
    }

    @Test("a reload that has not begun cannot end")
    func none() {
        var reload = ReloadState()
        let waiting = reload.end(.failed("the gateway is stopping"), at: 7)
        #expect(waiting == nil)
        #expect(reload.last == nil && reload.failed == 0)
    }

    @Test(
        "the status shows a reload's first line, without file paths",
        arguments: [
            (
                "/etc/attestgate/conf.d/a.yaml:6:13: error: found `x`\n    6 |   key: hunter2\n",
                "a.yaml:6:13: error: found `x`"
            ),
            (
                "registry: secret: /var/lib/attestgate/secret: cannot be read",
                "registry: secret: secret: cannot be read"
            ),
            ("`/etc/my conf/a` includes itself: /etc/b -> /etc/c", "`a` includes itself: b -> c"),
            ("`../own/a.pem` is no certificate", "`a.pem` is no certificate"),
            (
                "10.0.0.0/8 and https://login.example/keys and [::1]:443 stay",
                "10.0.0.0/8 and https://login.example/keys and [::1]:443 stay"
            ),
            ("registry: conf/../var/registry.sqlite: gone", "registry: registry.sqlite: gone"),
            ("", ""),
        ])
    func brief(reason: String, expected: String) {
        #expect(ReloadState.brief(reason) == expected)
    }

    @Test("foreign text is shortened for the status and has no control characters")
    func foreign() {
        #expect(ReloadState.brief("\u{1b}[2Jgone\u{9b}\tand on") == "?[2Jgone??and on")
        #expect(ReloadState.brief(String(repeating: "a", count: 10_000)).count == 500)
    }
}
