package org.attestgate.trustclient;

import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.OverlappingFileLockException;

/**
 * A counter in a file, which is written to the disk before a value is given out. The file has two places, which are
 * written in turn: a write that a loss of power cuts off destroys only the older value.
 *
 * <p>Open each file once, in one process. Keep it out of backups: an older copy would repeat values.
 */
public final class FileCounter implements ProofCounter, Closeable {
    /** The value and its complement, which shows whether the place was written completely. */
    private static final int PLACE_LENGTH = 16;

    // Not its channel: an interrupted thread closes a channel, and all later requests would fail.
    private final RandomAccessFile file;
    private long last;

    private FileCounter(File path) throws IOException {
        file = new RandomAccessFile(path, "rw");
        try {
            if (file.getChannel().tryLock() == null) throw new IOException("another process uses the counter");
            last = Math.max(stored(0), stored(1));
        } catch (OverlappingFileLockException error) {
            file.close();
            throw new IOException("this process uses the counter already", error);
        } catch (IOException error) {
            file.close();
            throw error;
        }
    }

    /** Creates the counter of a new key, in place of any other in this file. Its first value is 1. */
    public static FileCounter create(File path) throws IOException {
        if (path.exists() && !path.delete()) throw new IOException("cannot delete the old counter");
        FileCounter counter = new FileCounter(path);
        counter.last = 0;
        counter.store();
        return counter;
    }

    /**
     * Opens the counter of a key that exists.
     *
     * @throws AttestorFault {@code KEY_LOST} if there is no readable value, because any other could be a repetition
     */
    public static FileCounter open(File path) throws IOException {
        if (!path.exists()) throw new AttestorFault(AttestorFault.Reason.KEY_LOST);
        FileCounter counter = new FileCounter(path);
        if (counter.last >= 0) return counter;
        counter.close();
        throw new AttestorFault(AttestorFault.Reason.KEY_LOST);
    }

    @Override
    public synchronized long next() throws IOException {
        if (last >= LIMIT) throw new AttestorFault(AttestorFault.Reason.KEY_LOST);
        // A value that could not be stored is skipped: it may be on the disk.
        last++;
        store();
        return last;
    }

    @Override
    public synchronized void close() throws IOException {
        file.close();
    }

    private void store() throws IOException {
        file.seek(last % 2 * PLACE_LENGTH);
        file.write(ByteBuffer.allocate(PLACE_LENGTH).putLong(last).putLong(~last).array());
        file.getFD().sync();
    }

    /** Returns the value in a place, or -1 if there is none. */
    private long stored(int index) throws IOException {
        long start = (long) index * PLACE_LENGTH;
        if (file.length() < start + PLACE_LENGTH) return -1;
        byte[] place = new byte[PLACE_LENGTH];
        file.seek(start);
        file.readFully(place);
        ByteBuffer longs = ByteBuffer.wrap(place);
        long value = longs.getLong();
        return longs.getLong() == ~value && value >= 0 && value <= LIMIT ? value : -1;
    }
}
