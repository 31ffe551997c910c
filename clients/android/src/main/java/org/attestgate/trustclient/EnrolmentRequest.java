package org.attestgate.trustclient;

import java.util.ArrayList;
import java.util.List;

/** A request to the enrolment service. It needs TLS that authenticates the server. */
public final class EnrolmentRequest {
    /** Length limit of signals in bytes. */
    public static final int SIGNALS_LIMIT = 4_096;

    public enum Endpoint {
        NONCE("GET", "nonce"),
        INITIALIZATION("POST", "instance-initialization"),
        KEY_BINDING("POST", "key-binding"),
        // The following exist only at the listener for enrolled devices.
        CHALLENGE("GET", ".well-known/attestgate/challenge"),
        ATTESTATION("POST", "attestation"),
        INSTANCES("GET", "instances"),
        REVOCATION("PATCH", "instances/");

        private final String method;
        private final String path;

        Endpoint(String method, String path) {
            this.method = method;
            this.path = path;
        }
    }

    private final Endpoint endpoint;
    private final String url;
    private final boolean presentsCertificate;
    private final byte[] content;
    private final ClientIdentity identity;
    private final ProofFields proof;

    private EnrolmentRequest(
        Endpoint endpoint, String url, boolean presentsCertificate, byte[] content, ClientIdentity identity,
        ProofFields proof) {
        this.endpoint = endpoint;
        this.url = url;
        this.presentsCertificate = presentsCertificate;
        this.content = content;
        this.identity = identity;
        this.proof = proof;
    }

    /**
     * Creates a request.
     *
     * @param devices the base URL of the listener for enrolled devices. Null for the other one.
     */
    EnrolmentRequest(Endpoint endpoint, EnrolmentServiceAddress service, byte[] content, String devices) {
        this(
            endpoint, (devices == null ? service.url() : devices) + "/" + endpoint.path, devices != null, content, null,
            null);
    }

    /**
     * Creates a request of an enrolled device.
     *
     * @param devices the base URL of the listener, without a slash at its end, here and below
     */
    static EnrolmentRequest ofDevice(Endpoint endpoint, String devices) {
        return new EnrolmentRequest(endpoint, devices + "/" + endpoint.path, true, null, null, null);
    }

    /**
     * Creates a request for a new posture, which needs a proof.
     *
     * @param signals what the app states about the phone: a JSON object, or null
     * @param chain the certificates in DER, leaf first, of a key that was made for this nonce, or null
     * @param integrityToken a Play Integrity token for the nonce, or null
     */
    static EnrolmentRequest attestation(
        String devices, EnrolmentNonce nonce, String signals, List<byte[]> chain, String integrityToken)
        throws EnrolmentFailure {
        StringBuilder json = new StringBuilder("{\"nonce\":").append(Json.quote(nonce.text));
        if (signals != null) {
            if (Bytes.utf8(signals).length > SIGNALS_LIMIT || Json.object(signals) == null) {
                throw new EnrolmentFailure(EnrolmentFailure.Reason.SIGNALS_MALFORMED);
            }
            json.append(",\"signals\":").append(signals);
        }
        if (chain != null) json.append(",\"key_attestation\":").append(KeyBindingToken.list(chain));
        if (integrityToken != null) {
            if (!KeyBindingToken.isIntegrityToken(integrityToken)) {
                throw new EnrolmentFailure(EnrolmentFailure.Reason.INTEGRITY_TOKEN_MALFORMED);
            }
            json.append(KeyBindingToken.integrityMember(integrityToken));
        }
        byte[] content = Bytes.utf8(json.append('}').toString());
        return new EnrolmentRequest(Endpoint.ATTESTATION, devices + "/attestation", true, content, null, null);
    }

    /**
     * Creates a revocation, which needs a proof.
     *
     * @param id the device's id in the list
     */
    static EnrolmentRequest revocation(String devices, String id) throws EnrolmentFailure {
        if (!id.matches("[A-Za-z0-9_-]{43}")) throw new EnrolmentFailure(EnrolmentFailure.Reason.INSTANCE_MALFORMED);
        byte[] content = Bytes.utf8("{\"status\":\"REVOKED\"}");
        return new EnrolmentRequest(Endpoint.REVOCATION, devices + "/instances/" + id, true, content, null, null);
    }

    /** Returns the request with the certificate to present. */
    EnrolmentRequest presenting(ClientIdentity certificate) {
        return new EnrolmentRequest(endpoint, url, presentsCertificate, content, certificate, proof);
    }

    EnrolmentRequest proven(ProofFields fields) {
        return new EnrolmentRequest(endpoint, url, presentsCertificate, content, identity, fields);
    }

    /** The request as its proof covers it. */
    AttestedRequest attested() {
        AttestedRequest.Content described =
            content == null ? AttestedRequest.Content.NONE : AttestedRequest.Content.bytes(content);
        return new AttestedRequest(method(), RequestTarget.parse(url), contentFields(), described);
    }

    public Endpoint endpoint() {
        return endpoint;
    }

    public String method() {
        return endpoint.method;
    }

    public String url() {
        return url;
    }

    /** JSON, in the bytes that a proof covers. Null for a request without content. */
    public byte[] content() {
        return content;
    }

    /** Whether the request is sent with the phone's client certificate. All others are sent without one. */
    public boolean presentsCertificate() {
        return presentsCertificate;
    }

    /** The certificate that the request is sent with. Null for a request that presents none. */
    public ClientIdentity identity() {
        return identity;
    }

    /** The field lines to send: Content-Type with content, and those of a proof. Send each unchanged. */
    public List<AttestedRequest.Field> fields() {
        List<AttestedRequest.Field> fields = contentFields();
        if (proof != null) fields.addAll(proof.lines());
        return fields;
    }

    private List<AttestedRequest.Field> contentFields() {
        List<AttestedRequest.Field> fields = new ArrayList<>();
        if (content != null) fields.add(new AttestedRequest.Field("Content-Type", "application/json"));
        return fields;
    }
}
