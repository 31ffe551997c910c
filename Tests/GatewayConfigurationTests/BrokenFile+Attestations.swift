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
            "`iOS` is not known here",
            suggestion: "ios"),
        BrokenFile(
            attested: "a platform twice",
            "    counter: window 64\n",
            "    platforms: [ios, ▶ios]\n",
            "`ios` stands in this list twice"),
        BrokenFile(
            attested: "an unknown category",
            "    counter: window 64\n",
            "    validation_categories: [▶appstore]\n",
            "`appstore` is not known here",
            suggestion: "app-store"),
        BrokenFile(
            attested: "a category no statement can hold",
            "    counter: window 64\n",
            "    validation_categories: [▶4294967296]\n",
            "`4294967296` is not known here"),
        BrokenFile(
            attested: "a category twice, by name and by number",
            "    counter: window 64\n",
            "    validation_categories: [app-store, ▶4]\n",
            "`4` stands in this list twice"),
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
            attested: "a word for absence that is none",
            "    counter: window 64\n",
            "    absent_extensions: ▶ignore\n",
            "`ignore` is not known here"),
        BrokenFile(
            attested: "an unknown form of client data",
            "    counter: window 64\n",
            "    client_data: ▶nonce_and_tag\n",
            "`nonce_and_tag` is not known here",
            suggestion: "nonce-and-tag"),
        BrokenFile(
            attested: "a ceiling for what need not be sent",
            "    counter: window 64\n",
            "    maximum_risk: ▶5\n",
            "`maximum_risk` could be evaded by sending no receipt"),
        BrokenFile(
            attested: "a ceiling beside a receipt that is optional",
            "    counter: window 64\n",
            "    receipt: optional\n    maximum_risk: ▶5\n",
            "`maximum_risk` could be evaded by sending no receipt"),
        BrokenFile(
            attested: "a root other than Apple's in production",
            "    counter: window 64\n",
            "    attestation_root: ▶root.pem\n",
            "`attestation_root` means nothing with `environment: production`"),
        BrokenFile(
            attested: "a root other than Apple's in development",
            "environment: development\n",
            "environment: development\n    attestation_root: ▶root.pem\n",
            "`attestation_root` means nothing with `environment: development`"),
    ]
}
