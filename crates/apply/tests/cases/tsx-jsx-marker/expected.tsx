import { useState } from "react";

export function Panel({ title }: { title: string }) {
  const [open, setOpen] = useState(false);
  return (
    <section>
      <h2>{title}</h2>
      <button onClick={() => setOpen(!open)}>toggle</button>
      {open && <p>open</p>}
      <footer>end</footer>
    </section>
  );
}
