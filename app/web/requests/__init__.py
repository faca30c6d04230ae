"""From the bytes of a body to a request this service understands, or to what is wrong with it.

The models of bodies and what reads them may enter. They hold the form of a request; whether it
makes sense, the domain and the mechanisms decide. Nothing here may import another part of
``app.web`` or the web framework, but for reading uploads: long bodies are read in a process
outside the server, which loads this package alone.
"""
