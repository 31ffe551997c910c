@testable import GatewayConfiguration

/// Apps.
extension BrokenFile {
    static let apps = [
        BrokenFile(
            attested: "an app without an id",
            "  - id: ABCDE12345.org.example.other\n    environment",
            "  - ▶environment",
            "`id` is missing"),
        BrokenFile(
            attested: "an id without a team",
            "id: ABCDE12345.org.example.other",
            "id: ▶org.example.other",
            "`org.example.other` is not an app id"),
        BrokenFile(
            attested: "an id whose team is in lower case",
            "id: ABCDE12345.org.example.other",
            "id: ▶abcde12345.org.example.other",
            "`abcde12345.org.example.other` is not an app id",
            suggestion: "ABCDE12345.org.example.other"),
        BrokenFile(
            attested: "an id with a star",
            "id: ABCDE12345.org.example.other",
            "id: ▶ABCDE12345.org.example.*",
            "is not an app id"),
        BrokenFile(
            attested: "an id that a route names, misspelt: the route is not to blame",
            "id: ABCDE12345.org.example.app",
            "id: ▶ABCDE1234.org.example.app",
            "is not an app id"),
        BrokenFile(
            attested: "an app configured twice",
            "id: ABCDE12345.org.example.other",
            "id: ▶ABCDE12345.org.example.app",
            "the app `ABCDE12345.org.example.app` is already configured, on line 20"),
        BrokenFile(
            attested: "an app without an environment",
            "  - id: ABCDE12345.org.example.other\n    environment: development\n",
            "  - ▶id: ABCDE12345.org.example.other\n",
            "`environment` is missing"),
        BrokenFile(
            attested: "an unknown environment",
            "environment: development",
            "environment: ▶developer",
            "`developer` is not a known value",
            suggestion: "development"),
        BrokenFile(
            attested: "a rule for counters that is none",
            "window 64",
            "▶any",
            "`any` is not a counter rule"),
        BrokenFile(
            attested: "a misspelt rule for counters",
            "window 64",
            "▶stict",
            "`stict` is not a counter rule",
            suggestion: "strict"),
        BrokenFile(
            attested: "a window without a number",
            "window 64",
            "▶window",
            "`window` is not a counter rule"),
        BrokenFile(
            attested: "a window of nothing",
            "window 64",
            "▶window 0",
            "`window 0` is out of range"),
        BrokenFile(
            attested: "a window wider than what is kept",
            "window 64",
            "▶window 1025",
            "`window 1025` is out of range"),
        BrokenFile(
            attested: "a window as a mapping",
            "counter: window 64",
            "counter: { ▶window: 64 }",
            "found a mapping"),
        BrokenFile(
            attested: "apps that are no list",
            """
              - id: ABCDE12345.org.example.app
                environment: production
                counter: window 64
              - id: ABCDE12345.org.example.other
                environment: development

            """,
            "  ▶ABCDE12345.org.example.app: {}\n",
            "found a mapping"),
    ]
}
