package com.thoughtworks.xstream.security;

/** Lets the XStream of Debian's packages read the plans of Debian's JMeter 2.13, whose classes it would refuse. */
public final class PrimitiveTypePermission implements TypePermission {
    public static final TypePermission PRIMITIVES = new PrimitiveTypePermission();

    @Override
    public boolean allows(Class type) {
        return true;
    }
}
