// Stores the page's state in the fragment of its URL: JSON, deflated, in base64url. Browsers do not
// send fragments to servers.

const through = async (bytes, stream) =>
  new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());

/** Encodes a state as a fragment. */
export async function encode(state) {
  const bytes = await through(new TextEncoder().encode(JSON.stringify(state)), new CompressionStream("deflate-raw"));
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return `#s=${btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

/** Decodes a fragment; null if it is empty or damaged. */
export async function decode(fragment) {
  const match = /^#s=([\w-]+)$/.exec(fragment);
  if (!match) return null;
  try {
    const text = atob(match[1].replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(text, (c) => c.charCodeAt(0));
    const state = JSON.parse(new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw"))));
    return typeof state?.text === "string" ? state : null;
  } catch {
    return null;
  }
}
