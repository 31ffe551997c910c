@testable import GatewayConfiguration

/// Mistakes in apps.
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
            attested: "a package name of one label",
            "id: ABCDE12345.org.example.other",
            "id: ▶android:other",
            "`android:other` is not an app id"),
        BrokenFile(
            attested: "an Android app under development",
            "id: ABCDE12345.org.example.other\n    environment: development",
            "id: android:org.example.other\n    environment: ▶development",
            "Android has no attestation of apps under development"),
        BrokenFile(
            attested: "a platform of an Android app",
            "id: ABCDE12345.org.example.other\n    environment: development",
            "id: android:org.example.other\n    environment: production\n    platforms: ▶[ios]",
            "`platforms` has no effect for an Android app"),
        BrokenFile(
            attested: "a receipt of an Android app",
            "id: ABCDE12345.org.example.other\n    environment: development",
            "id: android:org.example.other\n    environment: production\n    receipt: ▶required",
            "`receipt` has no effect for an Android app"),
        BrokenFile(
            attested: "a demand on Android phones for an iOS app",
            "id: ABCDE12345.org.example.other\n    environment: development",
            "id: ABCDE12345.org.example.other\n    environment: development\n    minimum_patch_level: ▶2026-01",
            "`minimum_patch_level` has an effect for Android apps only"),
        BrokenFile(
            attested: "Play Integrity without a key",
            "id: ABCDE12345.org.example.other\n    environment: development",
            "id: android:org.example.other\n    environment: production\n    play_integrity:\n      ▶verification_key: k",
            "`decryption_key` is missing"),
        BrokenFile(
            attested: "a verdict that Google does not give",
            "id: ABCDE12345.org.example.other\n    environment: development",
            "id: android:org.example.other\n    environment: production\n    play_integrity:\n      verification_key: k\n      decryption_key: k\n      device: ▶MEETS_ANYTHING",
            "`MEETS_ANYTHING` is not a known value"),
        BrokenFile(
            attested: "a month that is none",
            "id: ABCDE12345.org.example.other\n    environment: development",
            "id: android:org.example.other\n    environment: production\n    minimum_patch_level: ▶2026-13",
            "`2026-13` is not a year and month"),
        BrokenFile(
            attested: "a signing certificate that is no SHA-256",
            "id: ABCDE12345.org.example.other\n    environment: development",
            "id: android:org.example.other\n    environment: production\n    signing_certificates: [▶a1b2]",
            "`a1b2` is not a SHA-256"),
        BrokenFile(
            attested: "a level of security that hardware does not have",
            "id: ABCDE12345.org.example.other\n    environment: development",
            "id: android:org.example.other\n    environment: production\n    security_level: ▶software",
            "`software` is not a known value"),
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
            "`window` is not a counter rule",
            suggestion: "window 1024"),
        BrokenFile(
            attested: "a window of nothing",
            "window 64",
            "▶window 0",
            "`window 0` is out of range"),
        BrokenFile(
            attested: "a window wider than what is kept",
            "window 64",
            "▶window 1025",
            "`window 1025` is out of range",
            suggestion: "window 1024"),
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

/// Mistakes in requirements on attestations.
extension BrokenFile {
    static let attestations = [
        BrokenFile(
            attested: "no platform",
            "    counter: window 64\n",
            "    platforms: ▶[]\n",
            "the list is empty"),
        BrokenFile(
            attested: "an unknown platform",
            "    counter: window 64\n",
            "    platforms: [▶iOS]\n",
            "`iOS` is not a known value",
            suggestion: "ios"),
        BrokenFile(
            attested: "a platform twice",
            "    counter: window 64\n",
            "    platforms: [ios, ▶ios]\n",
            "`ios` is listed twice"),
        BrokenFile(
            attested: "an unknown category",
            "    counter: window 64\n",
            "    validation_categories: [▶appstore]\n",
            "`appstore` is not a known value",
            suggestion: "app-store"),
        BrokenFile(
            attested: "a category no statement can hold",
            "    counter: window 64\n",
            "    validation_categories: [▶4294967296]\n",
            "`4294967296` is not a known value"),
        BrokenFile(
            attested: "a category twice, by name and by number",
            "    counter: window 64\n",
            "    validation_categories: [app-store, ▶4]\n",
            "`4` is listed twice"),
        BrokenFile(
            attested: "a version that cannot be compared",
            "    counter: window 64\n",
            "    minimum_bundle_version: ▶1.2b3\n",
            "`1.2b3` is not a bundle version"),
        BrokenFile(
            attested: "a version with an empty part",
            "    counter: window 64\n",
            "    minimum_bundle_version: ▶1..2\n",
            "`1..2` is not a bundle version"),
        BrokenFile(
            attested: "a version with too many parts",
            "    counter: window 64\n",
            "    minimum_bundle_version: ▶1.2.3.4.5.6.7.8.9\n",
            "is not a bundle version"),
        BrokenFile(
            attested: "a system version with its name",
            "    counter: window 64\n",
            "    minimum_os: ▶iOS 17.4\n",
            "`iOS 17.4` is not a system version"),
        BrokenFile(
            attested: "a system version with too many parts",
            "    counter: window 64\n",
            "    minimum_os: ▶17.4.1.0\n",
            "`17.4.1.0` is not a system version"),
        BrokenFile(
            attested: "a system version that no system has",
            "    counter: window 64\n",
            "    minimum_os: ▶'17.2048'\n",
            "`17.2048` is not a system version"),
        BrokenFile(
            attested: "a list of system versions",
            "    counter: window 64\n",
            "    minimum_os: ▶[17, 18]\n",
            "found a list"),
        BrokenFile(
            attested: "a word for absence that is none",
            "    counter: window 64\n",
            "    absent_extensions: ▶ignore\n",
            "`ignore` is not a known value"),
        BrokenFile(
            attested: "an unknown form of client data",
            "    counter: window 64\n",
            "    client_data: ▶nonce_and_tag\n",
            "`nonce_and_tag` is not a known value",
            suggestion: "nonce-and-tag"),
        BrokenFile(
            attested: "a ceiling for what need not be sent",
            "    counter: window 64\n",
            "    maximum_risk: ▶5\n",
            "a device could avoid `maximum_risk` by sending no receipt"),
        BrokenFile(
            attested: "a ceiling beside a receipt that is optional",
            "    counter: window 64\n",
            "    receipt: optional\n    maximum_risk: ▶5\n",
            "a device could avoid `maximum_risk` by sending no receipt"),
        BrokenFile(
            attested: "a root other than Apple's in production",
            "    counter: window 64\n",
            "    attestation_root: ▶root.pem\n",
            "`attestation_root` has no effect with `environment: production`, which has roots of its own"),
        BrokenFile(
            attested: "a root other than Apple's in development",
            "environment: development\n",
            "environment: development\n    attestation_root: ▶root.pem\n",
            "`attestation_root` has no effect with `environment: development`, which has roots of its own"),
    ]
}

/// Mistakes in the levels of routes.
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
