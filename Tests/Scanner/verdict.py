"""What a scan must have seen: the policy, and nothing worse. Read from sslyze's JSON."""

from dataclasses import dataclass

# Mozilla's guidelines 5.7, of intermediate without DHE; under IANA's names.
SUITES = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
CIPHERS = {"TLS_ECDHE_{}_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_{}_WITH_AES_256_GCM_SHA384",
           "TLS_ECDHE_{}_WITH_CHACHA20_POLY1305_SHA256"}
VERSIONS = ["ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1", "tls_1_2", "tls_1_3"]
GROUPS = {"X25519", "secp256r1"}

# What testssl.sh says of our development CA, which no store trusts and which names no address for revocation; of the
# machine's openssl; and of itself: it may leave before the session that it is to resume has come, and sslyze tries that
# too.
NOT_OURS = {"cert_chain_of_trust", "cert_revocation", "engine_problem", "sessionresumption_ticket"}
# Without these testssl.sh has not looked.
LOOKED_FOR = {
    "SSLv3", "TLS1", "TLS1_1", "TLS1_3", "heartbleed", "CCS", "ROBOT", "secure_renego", "secure_client_renego", "CRIME_TLS",
    "fallback_SCSV", "OCSP_stapling"}


@dataclass(frozen=True)
class Expected:
    policy: str
    # Of the server's key: ECDSA or RSA.
    key: str
    # Sessions are kept only of clients with certificates.
    resumes: bool

    def suites(self, version):
        if version == "tls_1_3":
            return SUITES
        if version == "tls_1_2" and self.policy == "intermediate":
            return {cipher.format(self.key) for cipher in CIPHERS}
        return set()


def seen(scan):
    """What of a scan is compared: name -> value. A command that has not ended is none."""
    def result(command):
        attempt = scan["scan_result"][command]
        return attempt["result"] if attempt and attempt["status"] == "COMPLETED" else None

    def member(command, name):
        found = result(command)
        return f"{command} did not end" if found is None else found[name]

    values = {}
    for version in VERSIONS:
        suites = member(f"{version}_cipher_suites", "accepted_cipher_suites")
        values[f"suites of {version}"] = suites if isinstance(suites, str) else {
            suite["cipher_suite"]["name"] for suite in suites}
    groups = member("elliptic_curves", "supported_curves")
    values["groups"] = groups if isinstance(groups, str) else {group["name"] for group in groups or []}
    values |= {
        "compression": member("tls_compression", "supports_compression"),
        "early data": member("tls_1_3_early_data", "supports_early_data"),
        "client renegotiation": member("session_renegotiation", "client_renegotiations_success_count"),
        "renegotiation is secure (RFC 5746)": member("session_renegotiation", "supports_secure_renegotiation"),
        "extended master secret": member("tls_extended_master_secret", "supports_ems_extension"),
        "fallback signal": member("tls_fallback_scsv", "supports_fallback_scsv"),
        "Heartbleed": member("heartbleed", "is_vulnerable_to_heartbleed"),
        "CCS injection": member("openssl_ccs_injection", "is_vulnerable_to_ccs_injection"),
        "ROBOT": member("robot", "robot_result"),
        "tickets of TLS 1.2": member("session_resumption", "tls_ticket_resumption_result"),
        "session ids of TLS 1.2": member("session_resumption", "session_id_resumption_result"),
    }
    certificates = result("certificate_info")
    deployments = certificates["certificate_deployments"] if certificates else []
    values["OCSP response"] = {(d["ocsp_response"] or {}).get("certificate_status", "none") for d in deployments}
    return values


def objections(scan, expected):
    """Name -> what was seen instead of what was to be."""
    values = seen(scan)
    wanted = {f"suites of {version}": expected.suites(version) for version in VERSIONS}
    wanted |= {
        "groups": GROUPS, "compression": False, "early data": False, "client renegotiation": 0, "Heartbleed": False,
        "CCS injection": False, "ROBOT": "NOT_VULNERABLE_RSA_NOT_SUPPORTED", "OCSP response": {"GOOD"},
        "renegotiation is secure (RFC 5746)": True, "extended master secret": True, "fallback signal": True,
    }
    if expected.policy == "modern":
        tickets = session_ids = "SERVER_IS_TLS_1_3_ONLY"
    else:
        tickets, session_ids = "NOT_SUPPORTED", "FULLY_SUPPORTED" if expected.resumes else "NOT_SUPPORTED"
    wanted |= {"tickets of TLS 1.2": tickets, "session ids of TLS 1.2": session_ids}
    assert wanted.keys() == values.keys()
    return {name: (values[name], want) for name, want in wanted.items() if values[name] != want}
