// A page that was opened from the disk may start no worker. Then the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = data => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      this.ready = new Promise(resolve => {
        const script = inside.document.createElement("script");
        script.src = url;
        script.onload = () => resolve(inside);
        inside.document.body.append(script);
      });
    }

    postMessage(data) {
      this.ready.then(inside => {
        const event = new inside.MessageEvent("message", { data });
        inside.dispatchEvent(event);
      });
    }

    terminate() {}
  };
}
