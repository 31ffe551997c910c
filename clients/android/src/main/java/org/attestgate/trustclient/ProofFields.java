package org.attestgate.trustclient;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** The fields of a proof. Send each unchanged in one line. */
public final class ProofFields {
    private final List<AttestedRequest.Field> lines = new ArrayList<>();

    ProofFields(String contentDigest, String counter, String signatureInput, String signature) {
        if (contentDigest != null) lines.add(new AttestedRequest.Field("Content-Digest", contentDigest));
        lines.add(new AttestedRequest.Field("Attest-Proof-Counter", counter));
        lines.add(new AttestedRequest.Field("Signature-Input", signatureInput));
        lines.add(new AttestedRequest.Field("Signature", signature));
    }

    /** The names and values of the three or four lines. */
    public List<AttestedRequest.Field> lines() {
        return Collections.unmodifiableList(lines);
    }
}
