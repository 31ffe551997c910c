package org.attestgate.trustclient;

/**
 * The state machine of one request with its proof, from the first challenge to the final response. It performs no I/O.
 *
 * <p>A request is sent at most twice. After {@code challenge_required} and {@code proof_stale} nothing was executed,
 * and a new proof helps. After {@code counter_replayed} and {@code counter_late} the request may have been executed,
 * so only an idempotent one is sent again. A new proof does not help against other denials.
 */
public final class ProofExchange {
    public enum Action {
        /** Get {@link ProofSession#CHALLENGE_PATH} of the same authority, then call {@code challengeAnswered}. */
        FETCH_CHALLENGE,
        /**
         * Send the request with a new proof for {@code challenge()} and {@code created()}, then call {@code answered}.
         */
        SEND,
        /** The last response is the final one. */
        DELIVER,
        /** The gateway gave no challenge that this key can answer. Its last answer states the reason. */
        FAIL
    }

    private enum State { BEGUN, FETCHING, SENT, SENT_AGAIN, OVER }

    private final ProofSession session;
    private final boolean isIdempotent;
    private State state = State.BEGUN;
    private ReceivedChallenge challenge;
    private long created;

    /**
     * Creates an exchange.
     *
     * @param isIdempotent whether executing the request twice has the same effect as once
     */
    public ProofExchange(ProofSession session, boolean isIdempotent) {
        this.session = session;
        this.isIdempotent = isIdempotent;
    }

    /** The challenge for the proof of {@link Action#SEND}. */
    public ReceivedChallenge challenge() {
        return challenge;
    }

    /** The time for the proof of {@link Action#SEND}, in seconds since 1970 by the gateway's clock. */
    public long created() {
        return created;
    }

    /**
     * Begins the exchange.
     *
     * @param now the time by this device's clock in seconds since 1970, as in the methods below
     */
    public Action begin(long now) {
        challenge = session.usableChallenge(now);
        if (challenge != null) return send(State.SENT, now);
        state = State.FETCHING;
        return Action.FETCH_CHALLENGE;
    }

    /** Handles the answer of the challenge endpoint. */
    public Action challengeAnswered(GatewayAnswer answer, long now) {
        if (state != State.FETCHING || !session.note(answer, now)) return end(Action.FAIL);
        challenge = session.challenge();
        return send(State.SENT, now);
    }

    /** Handles the answer to the request. */
    public Action answered(GatewayAnswer answer, long now) {
        boolean isRenewed = session.note(answer, now);
        if (state != State.SENT || !isRemedied(answer, isRenewed, now)) return end(Action.DELIVER);
        challenge = session.usableChallenge(now);
        return challenge == null ? end(Action.DELIVER) : send(State.SENT_AGAIN, now);
    }

    /** Returns whether a new proof helps, and adopts the gateway's time where that is the remedy. */
    private boolean isRemedied(GatewayAnswer answer, boolean isRenewed, long now) {
        boolean isRefused = answer.status() == 401 || answer.status() == GatewayAnswer.NO_STATUS;
        if (!isRefused || answer.denial() == null) return false;
        switch (answer.denial()) {
            case "challenge_required": return isRenewed;
            case "proof_stale":
                if (answer.date() != null) session.correctClock(answer.date(), now);
                return isRenewed || answer.date() != null;
            case "counter_replayed": case "counter_late": return isIdempotent;
            default: return false;
        }
    }

    private Action send(State next, long now) {
        state = next;
        created = session.created(now);
        return Action.SEND;
    }

    private Action end(Action action) {
        state = State.OVER;
        return action;
    }
}
