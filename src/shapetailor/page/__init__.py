"""The page: a folder of pictures in the browser, drawn on, taught and applied; all state is in the project's folder."""
