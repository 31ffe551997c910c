package org.attestgate.trustclient;

import java.io.IOException;
import java.util.Locale;
import java.util.function.LongSupplier;
import javax.net.ssl.SSLException;

/**
 * A client that sends requests with proofs over the app's HTTP library. Create one for each gateway. Any number of
 * threads may use it: their requests arrive out of order, so the app's {@code counter} rule must be a window.
 */
public final class AttestedClient {
    /** The app's HTTP library, for one request. */
    public interface Transport<R> {
        /** Gets {@link ProofSession#CHALLENGE_PATH} of the same authority, without a proof. */
        GatewayAnswer fetchChallenge() throws IOException;

        /** Sends the request with these fields, over TLS with the client certificate. */
        R send(ProofFields fields) throws IOException;

        /** Parses the statements of a response. */
        GatewayAnswer parse(R response) throws IOException;

        /** Releases a response that is not delivered, because the request is sent again. */
        default void discard(R response) throws IOException {}
    }

    private final HardwareKey key;
    private final LongSupplier clock;
    private final ProofSession session;

    /** Creates a client with the system's clock. */
    public AttestedClient(HardwareKey key) {
        this(key, () -> System.currentTimeMillis() / 1000);
    }

    /**
     * Creates a client.
     *
     * @param clock returns the time in seconds since 1970
     */
    public AttestedClient(HardwareKey key, LongSupplier clock) {
        this.key = key;
        this.clock = clock;
        session = new ProofSession(key.keyID());
    }

    /**
     * Makes a proof and sends the request. It does both a second time if that is safe and may help.
     *
     * @param isIdempotent whether the request may be sent again although it may have been executed
     * @return the last response
     * @throws AttestorFault if the hardware key fails
     * @throws AttestedClientError without a challenge
     * @throws ProofFault if no proof can be made
     */
    public <R> R perform(AttestedRequest request, boolean isIdempotent, Transport<R> transport) throws IOException {
        ProofExchange exchange = new ProofExchange(session, isIdempotent);
        ProofExchange.Action action = exchange.begin(now());
        if (action == ProofExchange.Action.FETCH_CHALLENGE) {
            GatewayAnswer answer = transport.fetchChallenge();
            action = exchange.challengeAnswered(answer, now());
            if (action == ProofExchange.Action.FAIL) throw new AttestedClientError(answer);
        }
        while (true) {
            R response = transport.send(proof(request, exchange));
            action = exchange.answered(transport.parse(response), now());
            if (action == ProofExchange.Action.DELIVER) return response;
            transport.discard(response);
        }
    }

    /**
     * Returns whether enrolling may help after an error: the hardware key is lost, or the gateway has refused the
     * certificate or the phone. Then enrol and connect again, once. No request was executed.
     *
     * <p>OkHttp 3 hides the TLS alert over HTTP/2.
     */
    public static boolean needsEnrolment(IOException error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof AttestorFault) {
                return ((AttestorFault) cause).reason() == AttestorFault.Reason.KEY_LOST;
            }
            if (cause instanceof AttestedClientError) return ((AttestedClientError) cause).answer().needsEnrolment();
            boolean isTLS = cause instanceof SSLException && cause.getMessage() != null;
            // The JDK writes it in lower case, Conscrypt in capitals.
            if (isTLS && cause.getMessage().toLowerCase(Locale.ROOT).contains("certificate_revoked")) return true;
        }
        return false;
    }

    private ProofFields proof(AttestedRequest request, ProofExchange exchange) throws IOException {
        ProofDraft draft =
            new ProofDraft(request, exchange.challenge(), key.keyID(), exchange.created(), key.nextCounter());
        return draft.fields(key.signature(draft.signatureBase()));
    }

    private long now() {
        return clock.getAsLong();
    }
}
