package org.attestgate.trustclient;

import static org.junit.Assert.assertEquals;

import java.util.Arrays;
import org.attestgate.trustclient.ProofExchange.Action;
import org.junit.Test;

public class ProofExchangeTest {
    private static final long NOW = Samples.TIME;

    private final ProofSession session = new ProofSession(Samples.KEY_ID);

    /** Returns an exchange whose request was sent, with a fresh challenge in the session. */
    private ProofExchange sent(boolean isIdempotent) {
        session.note(Samples.answer(204, null, "first"), NOW);
        ProofExchange exchange = new ProofExchange(session, isIdempotent);
        assertEquals(Action.SEND, exchange.begin(NOW));
        assertEquals("first", exchange.challenge().request().nonce());
        return exchange;
    }

    @Test
    public void withoutAChallengeOneIsFetchedFirst() {
        ProofExchange exchange = new ProofExchange(session, false);
        assertEquals(Action.FETCH_CHALLENGE, exchange.begin(NOW));
        assertEquals(Action.SEND, exchange.challengeAnswered(Samples.answer(204, null, "new"), NOW + 1));
        assertEquals("new", exchange.challenge().request().nonce());
        assertEquals(NOW + 1, exchange.created());
        assertEquals(Action.DELIVER, exchange.answered(Samples.answer(200, null, null), NOW + 2));
    }

    @Test
    public void aChallengeThatIsTooOldOrFromTheFutureIsNotUsed() {
        for (long age : new long[] {240, 100_000, -1}) {
            session.note(Samples.answer(204, null, "old"), NOW - age);
            assertEquals(Action.FETCH_CHALLENGE, new ProofExchange(session, false).begin(NOW));
        }
        session.note(Samples.answer(204, null, "old"), NOW - 239);
        assertEquals(Action.SEND, new ProofExchange(session, false).begin(NOW));
    }

    @Test
    public void aGatewayThatGivesNoChallengeIsNotAskedTwice() {
        for (GatewayAnswer answer : Arrays.asList(
            Samples.answer(403, "device_revoked", null), Samples.answer(204, null, null))) {
            ProofExchange exchange = new ProofExchange(new ProofSession(Samples.KEY_ID), true);
            exchange.begin(NOW);
            assertEquals(Action.FAIL, exchange.challengeAnswered(answer, NOW));
        }
    }

    @Test
    public void challengeRequiredIsRepeatedOnceWithTheNewChallenge() {
        ProofExchange exchange = sent(false);
        GatewayAnswer refusal = Samples.answer(401, "challenge_required", "second");
        assertEquals(Action.SEND, exchange.answered(refusal, NOW + 5));
        assertEquals("second", exchange.challenge().request().nonce());
        assertEquals(Action.DELIVER, exchange.answered(Samples.answer(401, "challenge_required", "third"), NOW + 6));
        assertEquals("third", session.challenge().request().nonce());
        assertEquals(Action.DELIVER, sent(false).answered(Samples.answer(401, "challenge_required", null), NOW));
    }

    @Test
    public void proofStaleCorrectsTheClock() {
        ProofExchange exchange = sent(false);
        GatewayAnswer refusal = Samples.answer(401, "proof_stale", "second", "Fri, 21 Nov 2025 02:53:20 GMT");
        assertEquals(Action.SEND, exchange.answered(refusal, NOW));
        assertEquals(NOW + 3_600, exchange.created());
        assertEquals(NOW + 3_610, session.created(NOW + 10));
        assertEquals(Action.DELIVER, exchange.answered(refusal, NOW));
        assertEquals(Action.SEND, sent(false).answered(Samples.answer(401, "proof_stale", "second", "soon"), NOW));
        assertEquals(Action.DELIVER, sent(false).answered(Samples.answer(401, "proof_stale", null), NOW));
    }

    @Test
    public void aCounterDenialIsRepeatedOnlyForAnIdempotentRequest() {
        for (String denial : Arrays.asList("counter_replayed", "counter_late")) {
            GatewayAnswer refusal = Samples.answer(401, denial, "second");
            assertEquals(Action.DELIVER, sent(false).answered(refusal, NOW));
            ProofExchange exchange = sent(true);
            assertEquals(Action.SEND, exchange.answered(refusal, NOW));
            assertEquals(Action.DELIVER, exchange.answered(refusal, NOW));
        }
    }

    @Test
    public void whatANewProofCannotRepairIsDelivered() {
        for (GatewayAnswer answer : Arrays.asList(
            Samples.answer(200, null, "x"), Samples.answer(401, null, "x"), Samples.answer(401, "proof_required", "x"),
            Samples.answer(401, "proof_invalid", "x"), Samples.answer(401, "proof_incomplete", "x"),
            Samples.answer(401, "device_unknown", null), Samples.answer(403, "device_revoked", null),
            Samples.answer(403, "os_outdated", null), Samples.answer(403, "challenge_required", "x"),
            Samples.answer(503, "store_unavailable", null))) {
            assertEquals(answer.toString(), Action.DELIVER, sent(true).answered(answer, NOW));
        }
    }

    @Test
    public void aDeniedCallOfGrpcIsRepeatedToo() {
        String line = Samples.acceptSignature("second", "");
        assertEquals(
            Action.SEND,
            sent(false).answered(GatewayAnswer.ofCall("challenge_required", Arrays.asList(line), null), NOW));
        assertEquals(Action.DELIVER, sent(true).answered(GatewayAnswer.ofCall(null, Arrays.asList(line), null), NOW));
    }
}
