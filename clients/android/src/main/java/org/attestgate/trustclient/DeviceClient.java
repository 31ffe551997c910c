package org.attestgate.trustclient;

import java.io.IOException;
import java.util.List;
import java.util.function.LongSupplier;

/**
 * A client of an enrolled phone at the service's listener for enrolled devices: a new posture, the devices of the
 * phone's user, and the revocation of one of them, such as a lost phone. {@link EnrolmentClient#devices} makes one.
 *
 * <p>Calls throw {@link EnrolmentFailure}, {@link AttestedClientError} without a challenge, and what transport and
 * keystore throw.
 */
public final class DeviceClient {
    /** The alias of the key whose attestation is evidence. It is deleted at once. */
    private static final String EVIDENCE = Phone.ALIAS + "evidence";

    private final EnrolmentSettings settings;
    private final Attestor attestor;
    private final String tag;
    private final ClientIdentity identity;
    private final EnrolmentClient.Transport transport;
    private final AttestedClient client;

    DeviceClient(
        EnrolmentSettings settings, Attestor attestor, String tag, HardwareKey key, ClientIdentity identity,
        EnrolmentClient.Transport transport, LongSupplier clock) {
        this.settings = settings;
        this.attestor = attestor;
        this.tag = tag;
        this.identity = identity;
        this.transport = transport;
        client = new AttestedClient(key, clock);
    }

    /**
     * Shows a new posture: the attestation of a key that is made for it, and a Play Integrity token if the settings
     * have a source.
     *
     * @param signals what the app states about the phone: a JSON object of at most 4 KiB, or null
     */
    public synchronized AttestedPosture attest(String signals) throws IOException {
        EnrolmentAnswer answer = send(ofDevice(EnrolmentRequest.Endpoint.NONCE));
        EnrolmentNonce nonce = answer.nonce();
        if (nonce == null) throw failure(answer, EnrolmentRequest.Endpoint.NONCE);
        byte[] challenge = ClientDataForm.certificateKeyChallenge(nonce, tag);
        List<byte[]> chain = attestor.generateKey(EVIDENCE, Attestor.Purpose.PROOFS, challenge);
        attestor.deleteKey(EVIDENCE);
        String integrityToken = settings.integrityForInitialization(Bytes.base64URL(challenge));
        EnrolmentAnswer attested = prove(
            EnrolmentRequest.attestation(settings.devices(), nonce, signals, chain, integrityToken), false);
        AttestedPosture posture = attested.posture();
        if (posture == null) throw failure(attested, EnrolmentRequest.Endpoint.ATTESTATION);
        return posture;
    }

    /** Returns the devices of the phone's user, newest first; only this phone if the service knows no user. */
    public List<DeviceInstance> instances() throws IOException {
        EnrolmentAnswer answer = send(ofDevice(EnrolmentRequest.Endpoint.INSTANCES));
        List<DeviceInstance> instances = answer.instances();
        if (instances == null) throw failure(answer, EnrolmentRequest.Endpoint.INSTANCES);
        return instances;
    }

    /**
     * Revokes a device of the phone's user. Its connections are closed, and it is served no more.
     *
     * @param id {@link DeviceInstance#id}
     */
    public void revoke(String id) throws IOException {
        EnrolmentAnswer answer = prove(EnrolmentRequest.revocation(settings.devices(), id), true);
        if (answer.status() != 204) throw failure(answer, EnrolmentRequest.Endpoint.REVOCATION);
    }

    private EnrolmentRequest ofDevice(EnrolmentRequest.Endpoint endpoint) {
        return EnrolmentRequest.ofDevice(endpoint, settings.devices());
    }

    private EnrolmentAnswer send(EnrolmentRequest request) throws IOException {
        return transport.send(request.presenting(identity));
    }

    private EnrolmentAnswer prove(EnrolmentRequest request, boolean isIdempotent) throws IOException {
        return client.perform(request.attested(), isIdempotent, new AttestedClient.Transport<EnrolmentAnswer>() {
            @Override
            public GatewayAnswer fetchChallenge() throws IOException {
                return DeviceClient.this.send(ofDevice(EnrolmentRequest.Endpoint.CHALLENGE)).statements();
            }

            @Override
            public EnrolmentAnswer send(ProofFields fields) throws IOException {
                return DeviceClient.this.send(request.proven(fields));
            }

            @Override
            public GatewayAnswer parse(EnrolmentAnswer response) {
                return response.statements();
            }
        });
    }

    private static EnrolmentFailure failure(EnrolmentAnswer answer, EnrolmentRequest.Endpoint endpoint) {
        if (answer.status() < 300) return new EnrolmentFailure(EnrolmentFailure.Reason.ANSWER_UNREADABLE);
        EnrolmentRefusal refusal = answer.refusal();
        return new EnrolmentFailure(refusal, refusal.advice(endpoint));
    }
}
