package org.attestgate.trustclient;

import java.util.Collections;
import java.util.List;

/** Values that several tests use. */
final class Samples {
    static final KeyID KEY_ID = KeyID.parse("sYuGzhOJ5G3oeqSlExzoPBFg+jPAh6sVuGNXTTHY/zw=");
    /** 21 November 2025, 01:53:20. */
    static final long TIME = 1_763_690_000;

    private Samples() {}

    static String acceptSignature(String nonce, String parameters) {
        return "attest=(\"@method\" \"@authority\" \"@path\" \"@query\");created;nonce=\"" + nonce + "\"" + parameters
            + ";tag=\"attestgate-request\"";
    }

    /** Returns a response. Null for a denial, challenge or date that it does not have. */
    static GatewayAnswer answer(int status, String denial, String challenge, String date) {
        String content = denial == null ? "" : "{\"error\":\"" + denial + "\",\"trace_id\":\"1\"}";
        List<String> lines = challenge == null
            ? Collections.emptyList() : Collections.singletonList(acceptSignature(challenge, ""));
        return new GatewayAnswer(status, lines, date, Bytes.utf8(content));
    }

    static GatewayAnswer answer(int status, String denial, String challenge) {
        return answer(status, denial, challenge, null);
    }
}
