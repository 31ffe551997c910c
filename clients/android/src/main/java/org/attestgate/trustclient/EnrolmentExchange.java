package org.attestgate.trustclient;

import java.util.List;

/**
 * The state machine of one enrolment, renewal or rotation, from any progress to the certificate. It performs no I/O.
 *
 * <p>Carry out each action and pass its result to the method that the action names, which returns the next action.
 * Whenever {@link #record} has changed, store it <b>before</b> carrying out the action, because an app may end at any
 * moment:
 *
 * <table>
 * <caption>The next exchange</caption>
 * <tr><th>the app ended, or an answer was lost</th><th>the next exchange</th></tr>
 * <tr><td>before the hardware key was attested</td><td>makes and attests it</td></tr>
 * <tr><td>between attestation and its answer</td><td>sends the same bytes again; if the nonce has expired, tests
 * whether they had arrived</td></tr>
 * <tr><td>between key binding and its answer</td><td>binds again</td></tr>
 * </table>
 */
public final class EnrolmentExchange {
    /** What the caller does next. Only the values that its kind names are present. */
    public static final class Action {
        public enum Kind {
            /** Choose a name for a new hardware key, then call {@code keyMade}. */
            MAKE_KEY,
            /** Send {@code request}, then call {@code answered}. */
            SEND,
            /** Generate the hardware key {@code tag} with {@code challenge}, then call {@code attested}. */
            ATTEST,
            /** Provide the certificate key, generated with {@code challenge} if attested, then {@code keyProvided}. */
            PROVIDE_KEY,
            /** Sign {@code clientData(counter)} with the hardware key, then call {@code asserted}. */
            ASSERT,
            /** Sign {@code message} with the certificate key, then call {@code signed}. */
            SIGN,
            /** The enrolment has the {@code certificate}. */
            FINISH,
            /** The enrolment ends with {@code failure}. */
            FAIL
        }

        public final Kind kind;
        public final EnrolmentRequest request;
        public final String tag;
        public final byte[] challenge;
        /** What a Play Integrity token is requested for, with {@code ATTEST} and {@code PROVIDE_KEY}. */
        public final String integrityNonce;
        public final byte[] message;
        public final EnrolledCertificate certificate;
        public final EnrolmentFailure failure;
        private final KeyBindingToken token;

        private Action(
            Kind kind, EnrolmentRequest request, String tag, byte[] challenge, String integrityNonce,
            KeyBindingToken token, byte[] message, EnrolledCertificate certificate, EnrolmentFailure failure) {
            this.kind = kind;
            this.request = request;
            this.tag = tag;
            this.challenge = challenge;
            this.integrityNonce = integrityNonce;
            this.token = token;
            this.message = message;
            this.certificate = certificate;
            this.failure = failure;
        }

        private static Action key(Kind kind, String tag, byte[] challenge, EnrolmentNonce nonce) {
            String integrityNonce =
                nonce == null ? null : Bytes.base64URL(ClientDataForm.certificateKeyChallenge(nonce, tag));
            return new Action(kind, null, tag, challenge, integrityNonce, null, null, null, null);
        }

        /** Returns the bytes that the hardware key signs for {@code ASSERT}. */
        public byte[] clientData(long counter) {
            return token.clientData(counter);
        }
    }

    /** The result that the exchange waits for. */
    private enum State {
        IDLE, KEY, NONCE_FOR_ATTESTATION, ATTESTATION, INITIALIZATION, NONCE_FOR_BINDING, CERTIFICATE_KEY, ASSERTION,
        SIGNATURE, BINDING, OVER
    }

    private final ClientDataForm form;
    private final String devices;
    private EnrolmentRecord record;
    private State state = State.IDLE;
    private long clockOffset;
    /** The nonce of the attestation or binding in progress. */
    private EnrolmentNonce nonce;
    private KeyBindingToken token;
    private String signingInput;
    /** Whether the initialization may have arrived before without its answer. */
    private boolean isRepetition;
    // Each remedy is tried once in an exchange. A second failure has another cause.
    private boolean hasRenewedKey;
    private boolean hasRenewedNonce;

    public EnrolmentExchange(EnrolmentRecord record, ClientDataForm form) {
        this(record, form, null);
    }

    /**
     * Creates an exchange.
     *
     * @param devices the base URL of the service's listener for enrolled devices, without a slash at its end. A phone
     *     that is bound then sends all requests there, with its certificate. Null if there is none, or if the
     *     certificate has expired.
     */
    public EnrolmentExchange(EnrolmentRecord record, ClientDataForm form, String devices) {
        this.devices = devices;
        this.record = record;
        this.form = form;
    }

    public EnrolmentRecord record() {
        return record;
    }

    /** The service's clock minus this phone's clock in seconds, according to the last answer. */
    public long clockOffset() {
        return clockOffset;
    }

    public Action begin() {
        switch (record.step()) {
            case BEGUN: return makeKey();
            case KEY_MADE: return fetchNonce(State.NONCE_FOR_ATTESTATION);
            case ATTESTED:
                isRepetition = true;
                return initialize(record.initialization());
            default: return fetchNonce(State.NONCE_FOR_BINDING);
        }
    }

    // Results of the platform.

    /**
     * Handles a name.
     *
     * @param tag base64url of 16 to 64 random bytes
     */
    public Action keyMade(String tag) {
        expect(State.KEY);
        record = record.keyMade(tag);
        return fetchNonce(State.NONCE_FOR_ATTESTATION);
    }

    /**
     * Handles an attestation.
     *
     * @param chain the certificates of the hardware key in DER, leaf first
     * @param integrityToken a Play Integrity token for {@code integrityNonce}, or null if the service requires none
     */
    public Action attested(List<byte[]> chain, String integrityToken) {
        expect(State.ATTESTATION);
        if (isMalformed(integrityToken)) return integrityTokenMalformed();
        byte[] content = KeyBindingToken.initialization(nonce, record.tag(), chain, integrityToken);
        record = record.attested(content);
        return initialize(content);
    }

    /**
     * Handles the certificate key.
     *
     * @param point its uncompressed point, 65 bytes: of the bound key to renew its certificate, or of a new one to
     *     rotate
     * @param chain its certificates in DER, leaf first, attested with the action's challenge; null without attestation
     * @param admissionToken a JWT for this key, or null if the service requires none
     * @param integrityToken a Play Integrity token for {@code integrityNonce}, or null if the service requires none
     */
    public Action keyProvided(byte[] point, List<byte[]> chain, String admissionToken, String integrityToken) {
        expect(State.CERTIFICATE_KEY);
        if (isMalformed(integrityToken)) return integrityTokenMalformed();
        if (admissionToken != null && !KeyBindingToken.isAdmissionToken(admissionToken)) {
            return end(new EnrolmentFailure(EnrolmentFailure.Reason.ADMISSION_TOKEN_MALFORMED));
        }
        token =
            new KeyBindingToken(record.service(), nonce, record.tag(), point, chain, admissionToken, integrityToken);
        state = State.ASSERTION;
        return new Action(Action.Kind.ASSERT, null, record.tag(), null, null, token, null, null, null);
    }

    /**
     * Handles an assertion.
     *
     * @param counter the counter in the signed client data
     * @param signature the hardware key's signature, in DER
     * @param now the time by this phone's clock, in seconds since 1970
     */
    public Action asserted(long counter, byte[] signature, long now) {
        expect(State.ASSERTION);
        signingInput = token.signingInput(counter, signature, Math.max(0, now + clockOffset));
        state = State.SIGNATURE;
        return new Action(Action.Kind.SIGN, null, null, null, null, null, Bytes.utf8(signingInput), null, null);
    }

    /** Handles the certificate key's signature, in DER. */
    public Action signed(byte[] signature) {
        expect(State.SIGNATURE);
        byte[] content = KeyBindingToken.content(signingInput, signature);
        if (content == null) return end(new EnrolmentFailure(EnrolmentFailure.Reason.SIGNATURE_UNREADABLE));
        state = State.BINDING;
        return send(EnrolmentRequest.Endpoint.KEY_BINDING, content);
    }

    public Action attestorFailed(AttestorFault fault) {
        EnrolmentFailure failure = new EnrolmentFailure(fault);
        boolean isLost = fault.reason() == AttestorFault.Reason.KEY_LOST;
        return isLost && state != State.KEY ? replaceKey(failure) : end(failure);
    }

    // Answers of the service.

    /**
     * Handles an answer.
     *
     * @param now the time by this phone's clock, in seconds since 1970
     */
    public Action answered(EnrolmentAnswer answer, long now) {
        // The service is authenticated, and checks the times in tokens.
        if (answer.date() != null) clockOffset = answer.date() - now;
        switch (state) {
            case NONCE_FOR_ATTESTATION:
                nonce = answer.nonce();
                if (nonce == null) return refused(answer, EnrolmentRequest.Endpoint.NONCE);
                state = State.ATTESTATION;
                return Action.key(Action.Kind.ATTEST, record.tag(), form.challenge(nonce, record.tag()), nonce);
            case INITIALIZATION: return initializationAnswered(answer);
            case NONCE_FOR_BINDING:
                nonce = answer.nonce();
                if (nonce == null) return refused(answer, EnrolmentRequest.Endpoint.NONCE);
                state = State.CERTIFICATE_KEY;
                return Action.key(
                    Action.Kind.PROVIDE_KEY, record.tag(), ClientDataForm.certificateKeyChallenge(nonce, record.tag()),
                    nonce);
            case BINDING: return bindingAnswered(answer);
            default: throw outOfTurn();
        }
    }

    private Action initializationAnswered(EnrolmentAnswer answer) {
        if (answer.status() == 204) {
            record = record.initialized();
            return fetchNonce(State.NONCE_FOR_BINDING);
        }
        EnrolmentRefusal refusal = answer.refusal();
        EnrolmentAdvice advice = refusal.advice(EnrolmentRequest.Endpoint.INITIALIZATION);
        // The system may have been updated after the attestation.
        if (isRepetition && advice == EnrolmentAdvice.UPDATE_SYSTEM) {
            return replaceKey(new EnrolmentFailure(refusal, advice));
        }
        if (!isRepetition || advice != EnrolmentAdvice.NEW_HARDWARE_KEY) {
            return refused(answer, EnrolmentRequest.Endpoint.INITIALIZATION);
        }
        // The nonce has expired, or the key is registered already. If the first request arrived, the service knows the
        // key, which key binding will show.
        isRepetition = false;
        return fetchNonce(State.NONCE_FOR_BINDING);
    }

    private Action bindingAnswered(EnrolmentAnswer answer) {
        EnrolledCertificate certificate = answer.certificate();
        if (certificate == null) return refused(answer, EnrolmentRequest.Endpoint.KEY_BINDING);
        if (!certificate.isFor(token.point())) {
            return end(new EnrolmentFailure(EnrolmentFailure.Reason.CERTIFICATE_FOREIGN));
        }
        record = record.bound();
        state = State.OVER;
        return new Action(Action.Kind.FINISH, null, null, null, null, null, null, certificate, null);
    }

    private Action refused(EnrolmentAnswer answer, EnrolmentRequest.Endpoint endpoint) {
        if (answer.status() < 300) return end(new EnrolmentFailure(EnrolmentFailure.Reason.ANSWER_UNREADABLE));
        EnrolmentRefusal refusal = answer.refusal();
        EnrolmentAdvice advice = refusal.advice(endpoint);
        switch (advice) {
            case NEW_NONCE:
                if (hasRenewedNonce) return end(new EnrolmentFailure(refusal, EnrolmentAdvice.GIVE_UP));
                hasRenewedNonce = true;
                return fetchNonce(State.NONCE_FOR_BINDING);
            case NEW_HARDWARE_KEY: return replaceKey(new EnrolmentFailure(refusal, EnrolmentAdvice.GIVE_UP));
            default:
                boolean isFinal = advice != EnrolmentAdvice.LATER;
                // The same attestation would always be refused, even after an update.
                if (endpoint == EnrolmentRequest.Endpoint.INITIALIZATION && isFinal) record = record.begun();
                return end(new EnrolmentFailure(refusal, advice));
        }
    }

    // Helpers.

    private Action makeKey() {
        isRepetition = false;
        state = State.KEY;
        return Action.key(Action.Kind.MAKE_KEY, null, null, null);
    }

    /** Makes another hardware key, or ends with the failure if that was tried before. */
    private Action replaceKey(EnrolmentFailure failure) {
        if (hasRenewedKey) return end(failure);
        hasRenewedKey = true;
        record = record.begun();
        return makeKey();
    }

    private static boolean isMalformed(String integrityToken) {
        return integrityToken != null && !KeyBindingToken.isIntegrityToken(integrityToken);
    }

    private Action integrityTokenMalformed() {
        return end(new EnrolmentFailure(EnrolmentFailure.Reason.INTEGRITY_TOKEN_MALFORMED));
    }

    private Action initialize(byte[] content) {
        state = State.INITIALIZATION;
        return send(EnrolmentRequest.Endpoint.INITIALIZATION, content);
    }

    private Action fetchNonce(State next) {
        state = next;
        return send(EnrolmentRequest.Endpoint.NONCE, null);
    }

    private Action send(EnrolmentRequest.Endpoint endpoint, byte[] content) {
        EnrolmentRequest request = new EnrolmentRequest(
            endpoint, record.service(), content, record.step() == EnrolmentRecord.Step.BOUND ? devices : null);
        return new Action(Action.Kind.SEND, request, null, null, null, null, null, null, null);
    }

    private Action end(EnrolmentFailure failure) {
        state = State.OVER;
        return new Action(Action.Kind.FAIL, null, null, null, null, null, null, null, failure);
    }

    private void expect(State expected) {
        if (state != expected) throw outOfTurn();
    }

    private static IllegalStateException outOfTurn() {
        return new IllegalStateException("this is not what the last action asked for");
    }
}
