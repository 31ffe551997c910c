package org.attestgate.trustclient;

import java.util.Map;

/** A device in the list of its user. */
public final class DeviceInstance {
    private final String id;
    private final String platform;
    private final String app;
    private final String status;
    private final long createdAt;
    private final boolean isCurrent;

    private DeviceInstance(
        String id, String platform, String app, String status, long createdAt, boolean isCurrent) {
        this.id = id;
        this.platform = platform;
        this.app = app;
        this.status = status;
        this.createdAt = createdAt;
        this.isCurrent = isCurrent;
    }

    /** Returns the device in an element of the list, or null. */
    static DeviceInstance parse(Map<String, Object> element) {
        String id = Json.text(element, "id");
        String platform = Json.text(element, "platform");
        String app = Json.text(element, "app");
        String status = Json.text(element, "status");
        Long createdAt = Json.integer(element, "created_at");
        Object current = element.get("current");
        boolean isComplete =
            id != null && platform != null && app != null && status != null && createdAt != null
                && current instanceof Boolean;
        return isComplete
            ? new DeviceInstance(id, platform, app, status, createdAt, (Boolean) current) : null;
    }

    /** The hardware key's id in base64url, for {@link DeviceClient#revoke}. */
    public String id() {
        return id;
    }

    /** {@code ios} or {@code android}. */
    public String platform() {
        return platform;
    }

    public String app() {
        return app;
    }

    /** {@code ACTIVE}, {@code REVOKED} or {@code PENDING}. */
    public String status() {
        return status;
    }

    /** The time of registration, in seconds since 1970. */
    public long createdAt() {
        return createdAt;
    }

    /** Whether it is the device that asked. */
    public boolean isCurrent() {
        return isCurrent;
    }
}
