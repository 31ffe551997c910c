@testable import GatewayConfiguration

/// What is demanded of attestations.
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
            "`attestation_root` has no effect with `environment: production`, which uses Apple's root"),
        BrokenFile(
            attested: "a root other than Apple's in development",
            "environment: development\n",
            "environment: development\n    attestation_root: ▶root.pem\n",
            "`attestation_root` has no effect with `environment: development`, which uses Apple's root"),
    ]
}
