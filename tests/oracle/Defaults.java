import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.config.ConfigDef;

/** Prints "KEY DEFAULT", a tab, and what the key does, for each key in a ConfigDef of the classes that are named. */
public final class Defaults {
    public static void main(String[] names) throws Exception {
        for (String name : names) {
            for (ConfigDef definition : definitions(Class.forName(name))) {
                for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
                    String text = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null;
                    text = text == null ? "" : text.replace("class ", ""); // a list names classes so
                    String said = key.documentation == null ? "" : key.documentation.replaceAll("\\s+", " ");
                    System.out.println((key.name + " " + text).trim() + "\t" + said);
                }
            }
        }
    }

    private static List<ConfigDef> definitions(Class<?> of) throws Exception {
        List<ConfigDef> found = new ArrayList<>();
        for (Field field : of.getDeclaredFields()) {
            if (field.getType() == ConfigDef.class && opened(field, field.getModifiers())) {
                found.add((ConfigDef) field.get(null));
            }
        }
        for (Method method : of.getDeclaredMethods()) {
            Class<?>[] takes = method.getParameterTypes();
            if (method.getReturnType() != ConfigDef.class || !opened(method, method.getModifiers())) {
                continue;
            }
            if (takes.length == 0) {
                found.add((ConfigDef) method.invoke(null));
            } else if (takes.length == 1 && takes[0].getSimpleName().equals("Crypto")) {
                found.add((ConfigDef) method.invoke(null, takes[0].getField("SYSTEM").get(null)));
            }
        }
        return found;
    }

    private static boolean opened(AccessibleObject member, int modifiers) {
        member.setAccessible(Modifier.isStatic(modifiers));
        return Modifier.isStatic(modifiers);
    }
}
