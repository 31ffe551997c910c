package org.attestgate.trustclient;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/** The gateway's request for a proof, with the challenge: the member {@code attest} of the field Accept-Signature. */
public final class AcceptSignature {
    private static final int NONCE_LIMIT = 512;
    private static final List<String> PARAMETERS = Arrays.asList("created", "nonce", "keyid", "alg", "tag");

    private final List<String> components;
    private final String nonce;
    private final KeyID keyID;
    private final String algorithm;

    private AcceptSignature(List<String> components, String nonce, KeyID keyID, String algorithm) {
        this.components = Collections.unmodifiableList(components);
        this.nonce = nonce;
        this.keyID = keyID;
        this.algorithm = algorithm;
    }

    /** The components that the proof must cover. It must also cover what else the request has, such as content. */
    public List<String> components() {
        return components;
    }

    /** The challenge. */
    public String nonce() {
        return nonce;
    }

    /** Returns whether this key can answer. A signer that cannot must not sign (RFC 9421, section 5.2). */
    boolean isFor(KeyID key) {
        return (keyID == null || keyID.equals(key)) && (algorithm == null || algorithm.equals(ProofDraft.ALGORITHM));
    }

    /**
     * Parses the field.
     *
     * @param lines the values of all lines of Accept-Signature, in order
     * @return null if there is no readable request. It must not turn a good response into an error.
     */
    static AcceptSignature parse(List<String> lines) {
        StructuredField.InnerList member;
        try {
            member = StructuredField.innerList("attest", String.join(", ", lines));
        } catch (StructuredField.Malformed malformed) {
            return null;
        }
        return member == null ? null : of(member);
    }

    private static AcceptSignature of(StructuredField.InnerList member) {
        List<String> components = new ArrayList<>();
        for (String item : member.items) {
            if (components.contains(item) || !Component.isValid(item)) return null;
            components.add(item);
        }
        Map<String, Object> parameters = member.parameters;
        // Who cannot do what is requested must not sign (RFC 9421, section 5.2), so unknown parameters are refused.
        if (!PARAMETERS.containsAll(parameters.keySet())) return null;
        if (parameters.get("created") != Boolean.TRUE || !ProofDraft.TAG.equals(parameters.get("tag"))) return null;
        Object nonce = parameters.get("nonce");
        if (!(nonce instanceof String) || !isChallenge((String) nonce)) return null;
        Object key = parameters.get("keyid");
        KeyID keyID = key instanceof String ? KeyID.parse((String) key) : null;
        Object algorithm = parameters.get("alg");
        if (key != null && keyID == null || algorithm != null && !(algorithm instanceof String)) return null;
        return new AcceptSignature(components, (String) nonce, keyID, (String) algorithm);
    }

    private static boolean isChallenge(String nonce) {
        return !nonce.isEmpty() && nonce.length() <= NONCE_LIMIT && nonce.indexOf('"') < 0 && nonce.indexOf('\\') < 0;
    }
}
