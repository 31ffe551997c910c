@testable import GatewayConfiguration

/// What a route requires, and what that needs.
extension BrokenFile {
    private static let appsSection = """
        apps:
          - id: ABCDE12345.org.example.app
            environment: production
            counter: window 64
          - id: ABCDE12345.org.example.other
            environment: development

        """
    private static let registrySection = """
        registry:
          path: registry.sqlite
          secret: challenge.secret
          devices: 1000

        """

    static let levels = [
        BrokenFile(
            "a device without registry and apps",
            "require: certificate",
            "require: ▶device",
            "`require: device` needs the sections `registry` and `apps`"),
        BrokenFile(
            "a request proof without registry and apps",
            "require: certificate",
            "require: ▶request-proof",
            "`require: request-proof` needs the sections `registry` and `apps`"),
        BrokenFile(
            "the default level without registry and apps",
            "  - name: records\n    host: localhost\n    path: /records\n    require: certificate\n",
            "  - ▶name: records\n    host: localhost\n    path: /records\n",
            "`require` is missing; its default `request-proof` needs the sections `registry` and `apps`"),
        BrokenFile(
            "a request proof without registry and apps, with apps that are therefore unknown",
            "require: certificate",
            "require: ▶request-proof\n    apps: [ABCDE12345.org.example.app]",
            "needs the sections `registry` and `apps`"),
        BrokenFile(
            "a request proof without a registry",
            Conf.attested(replacing: registrySection, by: "")
                .replacing("request-proof", with: "▶request-proof"),
            "needs the sections `registry` and `apps`"),
        BrokenFile(
            "a request proof without apps",
            Conf.attested(replacing: appsSection, by: "").replacing("request-proof", with: "▶request-proof"),
            "needs the sections `registry` and `apps`"),
        BrokenFile(
            "a request proof with no app",
            Conf.attested(replacing: appsSection, by: "apps: []\n").replacing("request-proof", with: "▶request-proof"),
            "needs the sections `registry` and `apps`"),
        BrokenFile(
            attested: "an app that is not configured",
            "apps: [ABCDE12345.org.example.app]",
            "apps: [▶ABCDE12345.org.example.ap]",
            "there is no app `ABCDE12345.org.example.ap`",
            suggestion: "ABCDE12345.org.example.app"),
        BrokenFile(
            attested: "an app that is none",
            "apps: [ABCDE12345.org.example.app]",
            "apps: [▶app]",
            "`app` is not an app id"),
        BrokenFile(
            attested: "an app named twice",
            "apps: [ABCDE12345.org.example.app]",
            "apps: [ABCDE12345.org.example.app, ▶ABCDE12345.org.example.app]",
            "is listed twice"),
        BrokenFile(
            attested: "a route for no app",
            "apps: [ABCDE12345.org.example.app]",
            "apps: ▶[]",
            "the list is empty"),
        BrokenFile(
            attested: "apps where a certificate is enough",
            "require: request-proof\n    apps: [ABCDE12345.org.example.app]\n    components: [x-location]\n",
            "require: certificate\n    apps: ▶[ABCDE12345.org.example.app]\n",
            "`apps` has no effect with `require: certificate`"),
        BrokenFile(
            attested: "apps where a certificate is enough, which are none besides",
            "require: request-proof\n    apps: [ABCDE12345.org.example.app]\n    components: [x-location]\n",
            "require: certificate\n    apps: ▶[app]\n",
            "`apps` has no effect with `require: certificate`"),
        BrokenFile(
            attested: "components where a certificate is enough",
            "require: request-proof\n    apps: [ABCDE12345.org.example.app]\n    components: [x-location]\n",
            "require: certificate\n    components: ▶[x-location]\n",
            "`components` has no effect with `require: certificate`"),
        BrokenFile(
            attested: "a body that is streamed where nothing says what it must be",
            "require: request-proof\n    apps: [ABCDE12345.org.example.app]\n    components: [x-location]\n",
            "require: certificate\n    body: ▶stream\n",
            "`body` has no effect with `require: certificate`"),
        BrokenFile(
            attested: "components where a device is enough",
            "require: request-proof\n    apps: [ABCDE12345.org.example.app]\n    components: [x-location]\n",
            "require: device\n    components: ▶[x-location]\n",
            "`components` has no effect with `require: device`"),
        BrokenFile(
            attested: "a component in capitals",
            "[x-location]",
            "[▶X-Location]",
            "`X-Location` is not in lower case",
            suggestion: "x-location"),
        BrokenFile(
            attested: "a component that is no field",
            "[x-location]",
            "[▶'@query']",
            "`@query` is not the name of a field"),
        BrokenFile(
            attested: "a component that no request can have",
            "[x-location]",
            "[▶x_location]",
            "`x_location` cannot be covered: names have letters, digits and `-` only"),
        BrokenFile(
            attested: "a component that belongs to the message",
            "[x-location]",
            "[▶content-length]",
            "`content-length` is part of the message framing and cannot be required"),
        BrokenFile(
            attested: "a proof that covers itself",
            "[x-location]",
            "[▶signature]",
            "`signature` carries the proof"),
        BrokenFile(
            attested: "a proof that covers its own parameters as a field",
            "[x-location]",
            "[▶signature-input]",
            "`signature-input` carries the proof"),
        BrokenFile(
            attested: "a component named twice",
            "[x-location]",
            "[x-location, ▶x-location]",
            "`x-location` is listed twice"),
        BrokenFile(
            attested: "too many components",
            "[x-location]",
            "▶[a, b, c, d, e, f, g, h, i]",
            "the list has 9 entries"),
    ]
}
